// The control plane of Kubernetes in one program: etcd, kube-apiserver, kube-controller-manager, kube-scheduler or
// kubectl, selected by the first argument. All further arguments are passed to the component.
//
// A server whose standard input is a pipe ends when the pipe is closed, so it never outlives the process that started it.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: "+filepath.Base(os.Args[0])+" etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags]")
		os.Exit(2)
	}
	name := os.Args[1]
	// The components read os.Args themselves.
	os.Args = append([]string{name}, os.Args[2:]...)
	if name == "service-account-key" {
		if err := serviceAccountKey(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if name == "kubectl" {
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	}
	go endWithStarter()
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	component, known := components[name]
	if !known {
		fmt.Fprintf(os.Stderr, "unknown component %q\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(component()))
}

func endWithStarter() {
	input, err := os.Stdin.Stat()
	if err != nil || input.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	io.Copy(io.Discard, os.Stdin)
	fmt.Fprintln(os.Stderr, "the parent process has ended")
	os.Exit(1)
}

// serviceAccountKey writes the key with which kube-apiserver signs tokens.
func serviceAccountKey(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: service-account-key FILE")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	return os.WriteFile(args[0], block, 0o600)
}
