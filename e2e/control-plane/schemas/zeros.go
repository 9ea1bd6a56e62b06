package main

import (
	"encoding/json"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// named is a Go type with an OpenAPI definition.
type named interface{ OpenAPIModelName() string }

// zeros finds the fields that Go writes even if they are not set, with their values, by the names of the types.
type zeros struct {
	seen  map[reflect.Type]bool
	found map[string]map[string]any
}

// zerosOf returns the fields of all kinds and of all types that they refer to.
func zerosOf(s *runtime.Scheme) map[string]map[string]any {
	z := zeros{map[reflect.Type]bool{}, map[string]map[string]any{}}
	for gvk, goType := range s.AllKnownTypes() {
		if gvk.Version != runtime.APIVersionInternal {
			z.visit(goType)
		}
	}
	return z.found
}

func (z zeros) visit(goType reflect.Type) {
	switch goType.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		z.visit(goType.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	if z.seen[goType] {
		return
	}
	z.seen[goType] = true
	zero := reflect.New(goType)
	if model, ok := zero.Interface().(named); ok {
		text, err := json.Marshal(zero.Interface())
		check(err)
		var fields map[string]any
		if json.Unmarshal(text, &fields) == nil && len(fields) > 0 {
			z.found[model.OpenAPIModelName()] = fields
		}
	}
	for i := range goType.NumField() {
		z.visit(goType.Field(i).Type)
	}
}
