// Prints the protobuf messages of Kubernetes' Go types, from which cargo xtask codegen generates the tables of
// kinformer-wire and kinformer-apiserver, and samples to test them.
//
//	protobuf-tables tables            prints the kinds and messages
//	protobuf-tables samples N SEED    writes N random objects of each kind, in protobuf and in JSON
//	protobuf-tables streams SEED      writes lists, watches and a Status, as a server sends them
//
// Samples and streams consist of parts, each after its length in four bytes, little endian.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kind is a kind with a protobuf encoding.
type kind struct {
	schema.GroupVersionKind
	goType reflect.Type
}

// metaKinds are the kinds of the API machinery. Each version of each group registers some of them again.
var metaKinds = map[schema.GroupVersionKind]bool{
	{Version: "v1", Kind: "APIGroup"}:                                       true,
	{Version: "v1", Kind: "APIGroupList"}:                                   true,
	{Version: "v1", Kind: "APIResourceList"}:                                true,
	{Version: "v1", Kind: "APIVersions"}:                                    true,
	{Version: "v1", Kind: "Status"}:                                         true,
	{Group: metav1.GroupName, Version: "v1", Kind: "PartialObjectMetadata"}: true,
}

// notObjects recognizes the parameters of requests.
func notObjects(kind string) bool { return strings.HasSuffix(kind, "Options") }

func newScheme() *runtime.Scheme {
	s := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, metav1.AddMetaToScheme,
	} {
		check(add(s))
	}
	return s
}

// kinds returns every kind of single objects, sorted. Lists are decoded without tables.
func kinds(s *runtime.Scheme) []kind {
	var found []kind
	for gvk, goType := range s.AllKnownTypes() {
		_, isList := goType.FieldByName("Items")
		switch {
		case gvk.Version == runtime.APIVersionInternal || isList || notObjects(gvk.Kind):
		case goType.PkgPath() == reflect.TypeFor[metav1.ObjectMeta]().PkgPath() && !metaKinds[gvk]:
		case !reflect.PointerTo(goType).Implements(marshalerType):
		default:
			found = append(found, kind{gvk, goType})
		}
	}
	sort.Slice(found, func(a, b int) bool {
		x, y := found[a], found[b]
		if x.GroupVersion() != y.GroupVersion() {
			return x.GroupVersion().String() < y.GroupVersion().String()
		}
		return x.Kind < y.Kind
	})
	return found
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func number(at int) int64 {
	if len(os.Args) <= at {
		check(fmt.Errorf("a number is missing after %s", strings.Join(os.Args[1:], " ")))
	}
	value, err := strconv.ParseInt(os.Args[at], 10, 64)
	check(err)
	return value
}

func part(out io.Writer, bytes []byte) {
	check(binary.Write(out, binary.LittleEndian, uint32(len(bytes))))
	_, err := out.Write(bytes)
	check(err)
}

func main() {
	if len(os.Args) < 2 {
		check(fmt.Errorf("expected tables, samples N SEED, or streams SEED"))
	}
	out := bufio.NewWriter(os.Stdout)
	switch s := newScheme(); os.Args[1] {
	case "tables":
		tables(out, kinds(s))
	case "samples":
		samples(out, s, number(2), number(3))
	case "streams":
		streams(out, s, number(2))
	default:
		check(fmt.Errorf("no such command: %s", os.Args[1]))
	}
	check(out.Flush())
}
