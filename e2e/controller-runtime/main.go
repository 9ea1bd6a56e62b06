// controller-runtime beside kinformer: programs that are compared with kinformer's.
//
//	controller-runtime controller -kubeconfig FILE -foos N    a controller, for `cargo xtask bench-peers`
//	controller-runtime cache -kubeconfig FILE                 a cache that answers the calls of its input, for the suite
//	controller-runtime operator -kubeconfig FILE -namespace N an operator with metrics and a leader election, for both
//	controller-runtime reads -kubeconfig FILE                 a cache whose reads are measured, for `cargo xtask bench-peers`
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
)

func run(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("expected a program: controller, cache, operator or reads")
	}
	// The flag --kubeconfig is defined by controller-runtime.
	foos := flag.Int("foos", 0, "controller: the number of Foos; when all are reconciled, a line of JSON is printed")
	var operator operatorOptions
	flag.StringVar(&operator.namespace, "namespace", "default", "operator: the namespace of the config maps and the Lease")
	flag.IntVar(&operator.objects, "objects", 0, "operator: the number of config maps whose reconciliation is reported")
	flag.StringVar(&operator.metrics, "metrics", "0", "operator: the address of the metrics")
	flag.BoolVar(&operator.warmup, "warmup", false, "operator: start the informers before the leadership")
	strip := flag.Bool("strip-managed-fields", false, "controller, operator: store objects without their managed fields")
	shared := flag.Bool("shared", false, "reads: return the cached objects instead of copies")
	ownWrites := flag.Bool("own-writes", false, "reads: wait for the writes of the client")
	if err := flag.CommandLine.Parse(arguments[1:]); err != nil {
		return err
	}
	ctrl.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", flag.Lookup("kubeconfig").Value.String())
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "controller":
		return runController(config, *foos, *strip)
	case "cache":
		config.QPS = -1 // no limit
		return answerCalls(config, os.Stdin, os.Stdout)
	case "operator":
		operator.strip = *strip
		return runOperator(config, operator)
	case "reads":
		config.QPS = -1
		return measureReads(config, *shared, *ownWrites)
	default:
		return fmt.Errorf("there is no program %q", arguments[0])
	}
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
