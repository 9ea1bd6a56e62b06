// Prints the types of all kinds of kube-apiserver as JSON: how their fields are merged by server-side apply. Made from
// the OpenAPI definitions that the server is built with, by the conversion that it uses itself. cargo xtask codegen
// generates the table of kinformer-apiserver from them.
//
//	schemas               prints the types
//	schemas cases N SEED  writes N random lists of requests with the results of the server's field manager
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// typeRef is a reference to a type by name, or the type itself.
type typeRef struct {
	Name         string `json:"name,omitempty"`
	Relationship string `json:"relationship,omitempty"`
	Atom         *atom  `json:"atom,omitempty"`
}

type field struct {
	Name    string  `json:"name"`
	Type    typeRef `json:"type"`
	Default any     `json:"default,omitempty"`
}

type list struct {
	Relationship string   `json:"relationship"`
	Keys         []string `json:"keys,omitempty"`
	Element      typeRef  `json:"element"`
}

type object struct {
	Relationship string   `json:"relationship,omitempty"`
	Element      *typeRef `json:"element,omitempty"`
	Fields       []field  `json:"fields,omitempty"`
}

type atom struct {
	Scalar string  `json:"scalar,omitempty"`
	List   *list   `json:"list,omitempty"`
	Map    *object `json:"map,omitempty"`
}

type output struct {
	Modules []string          `json:"modules"`
	Kinds   map[string]string `json:"kinds"`
	Types   map[string]atom   `json:"types"`
	// The fields that Go writes even if they are not set, by type.
	Zeros map[string]map[string]any `json:"zeros"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func reference(r schema.TypeRef) typeRef {
	var out typeRef
	if r.NamedType != nil {
		out.Name = *r.NamedType
	} else {
		a := convert(r.Inlined)
		out.Atom = &a
	}
	if r.ElementRelationship != nil {
		out.Relationship = string(*r.ElementRelationship)
	}
	return out
}

func convert(a schema.Atom) atom {
	var out atom
	if a.Scalar != nil {
		out.Scalar = string(*a.Scalar)
	}
	if a.List != nil {
		out.List = &list{string(a.List.ElementRelationship), a.List.Keys, reference(a.List.ElementType)}
	}
	if a.Map != nil {
		out.Map = &object{Relationship: string(a.Map.ElementRelationship)}
		if (a.Map.ElementType != schema.TypeRef{}) {
			element := reference(a.Map.ElementType)
			out.Map.Element = &element
		}
		for _, f := range a.Map.Fields {
			out.Map.Fields = append(out.Map.Fields, field{f.Name, reference(f.Type), f.Default})
		}
	}
	return out
}

// kinds returns the names of the definitions of all kinds.
func kinds() map[string]string {
	s := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		check(add(s))
	}
	found := map[string]string{}
	for gvk := range s.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") {
			continue
		}
		object, err := s.New(gvk)
		check(err)
		if _, ok := object.(metav1.Object); !ok {
			continue
		}
		name, err := s.ToOpenAPIDefinitionName(gvk)
		check(err)
		found[gvk.GroupVersion().String()+" "+gvk.Kind] = name
	}
	return found
}

// definitions returns the OpenAPI definitions of these types and of all types that they refer to.
func definitions(names []string) map[string]*spec.Schema {
	config := &common.OpenAPIV3Config{
		GetDefinitionName: func(name string) (string, spec.Extensions) { return name, nil },
		GetDefinitions:    openapi.GetOpenAPIDefinitions,
	}
	config.Definitions = config.GetDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
	})
	found, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	check(err)
	return found
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "cases" {
		count, err := strconv.ParseInt(os.Args[2], 10, 64)
		check(err)
		seed, err := strconv.ParseInt(os.Args[3], 10, 64)
		check(err)
		cases(os.Stdout, count, seed)
		return
	}
	out := output{Kinds: kinds(), Types: map[string]atom{}, Zeros: zerosOf(scheme.Scheme)}
	names := make([]string, 0, len(out.Kinds))
	for _, name := range out.Kinds {
		names = append(names, name)
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(definitions(names), false)
	check(err)
	for _, t := range types.Types {
		out.Types[t.Name] = convert(t.Atom)
	}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			out.Modules = append(out.Modules, module.Path+" "+module.Version)
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(out))
}
