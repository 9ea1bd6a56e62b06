package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type marshaler interface{ Marshal() ([]byte, error) }

var (
	marshalerType     = reflect.TypeFor[marshaler]()
	jsonMarshalerType = reflect.TypeFor[json.Marshaler]()
	jsonSchema        = reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
)

// Types whose JSON differs from the layout of their struct.
var specials = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                  "Time",
	reflect.TypeFor[metav1.MicroTime]():                             "MicroTime",
	reflect.TypeFor[resource.Quantity]():                            "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                           "IntOrString",
	reflect.TypeFor[runtime.RawExtension]():                         "RawExtension",
	reflect.TypeFor[metav1.FieldsV1]():                              "RawJson",
	reflect.TypeFor[apiextensionsv1.JSON]():                         "RawJson",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "SchemaOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "SchemaOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "SchemaOrStrings",
}

// field is a field of a message. Its kind follows from the Go type, since the wire type in the tag may be wrong.
type field struct {
	number   int
	card     string
	kind     string
	message  string
	flags    []string
	jsonName string
}

type walker struct {
	messages map[string][]field
}

func tables(out io.Writer, kinds []kind) {
	w := walker{map[string][]field{}}
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		switch module.Path {
		case "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/kube-aggregator":
			fmt.Fprintln(out, "module", module.Path, module.Version)
		}
	}
	for _, k := range kinds {
		fmt.Fprintln(out, "kind", k.GroupVersion(), k.Kind, w.message(k.goType))
	}
	names := make([]string, 0, len(w.messages))
	for name := range w.messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintln(out, "message", name)
		for _, f := range w.messages[name] {
			or := func(text string) string {
				if text == "" {
					return "-"
				}
				return text
			}
			fmt.Fprintln(out, "field", f.number, or(f.jsonName), f.card, f.kind, or(f.message), or(strings.Join(f.flags, "+")))
		}
	}
}

func nameOf(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// message records a message and all messages that it refers to.
func (w *walker) message(t reflect.Type) string {
	name := nameOf(t)
	if _, known := w.messages[name]; known {
		return name
	}
	w.messages[name] = nil
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("protobuf")
		jsonTag := f.Tag.Get("json")
		if !tagged || tag == "-" {
			if f.IsExported() && jsonTag != "-" && f.Type != reflect.TypeFor[metav1.TypeMeta]() {
				check(fmt.Errorf("%s.%s is in JSON and not in protobuf", name, f.Name))
			}
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		check(err)
		fields = append(fields, w.field(name, number, f))
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].number < fields[b].number })
	w.messages[name] = fields
	return name
}

func (w *walker) field(message string, number int, f reflect.StructField) field {
	jsonName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	has := func(option string) bool { return strings.Contains(","+options+",", ","+option+",") }
	t, pointer := f.Type, f.Type.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	card, element := "One", t
	switch _, special := specials[t]; {
	case special:
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
		card, element = "Map", t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !reflect.PointerTo(t).Implements(marshalerType):
		card, element = "Repeated", t.Elem()
	}
	if element.Kind() == reflect.Pointer {
		element = element.Elem()
	}
	out := field{number: number, card: card, jsonName: jsonName}
	out.kind, out.message = w.kind(element)
	isStruct := element.Kind() == reflect.Struct
	switch {
	case f.Anonymous && jsonName == "":
		if card != "One" || out.kind != "Message" {
			check(fmt.Errorf("%s.%s is embedded but not a message", message, f.Name))
		}
		out.flags = append(out.flags, "Inline")
	case jsonName == "":
		// The name that encoding/json uses.
		out.jsonName = f.Name
	}
	if has("string") {
		check(fmt.Errorf("%s.%s is a string in JSON only", message, f.Name))
	}
	if card == "One" && !pointer && (has("omitzero") || has("omitempty") && !isStruct) {
		// A zero time has no bytes; other zero structs cannot be recognized by having no bytes.
		if isStruct && out.kind != "Time" && out.kind != "MicroTime" {
			check(fmt.Errorf("%s.%s is omitted from JSON when all its fields are zero", message, f.Name))
		}
		out.flags = append(out.flags, "OmitZero")
	} else if len(out.flags) == 0 {
		out.flags = append(out.flags, written(f, card, out.kind, has("omitempty") || has("omitzero"))...)
	}
	return out
}

// written returns how encoding/json writes the zero value of a field that is not omitted.
func written(f reflect.StructField, card, kind string, omitted bool) []string {
	isStruct := f.Type.Kind() == reflect.Struct
	switch {
	case omitted && !isStruct:
		return nil
	case f.Type.Kind() == reflect.Pointer, card != "One", kind == "Bytes", kind == "Time", kind == "MicroTime",
		kind == "RawExtension", kind == "RawJson":
		return []string{"Null"}
	}
	return []string{"Written"}
}

func (w *walker) kind(t reflect.Type) (kind, message string) {
	if special, ok := specials[t]; ok {
		if strings.HasPrefix(special, "Schema") {
			return special, w.message(jsonSchema)
		}
		return special, ""
	}
	if t.Implements(jsonMarshalerType) || reflect.PointerTo(t).Implements(jsonMarshalerType) {
		check(fmt.Errorf("%s has its own JSON encoding, which is unknown", nameOf(t)))
	}
	switch t.Kind() {
	case reflect.String:
		return "Text", ""
	case reflect.Bool:
		return "Bool", ""
	case reflect.Int32:
		return "Int32", ""
	case reflect.Int, reflect.Int64:
		return "Int", ""
	case reflect.Float64:
		return "Double", ""
	case reflect.Struct:
		return "Message", w.message(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "Bytes", ""
		}
		if t.Elem().Kind() == reflect.String {
			return "TextList", ""
		}
	}
	check(fmt.Errorf("unknown type %s", t))
	return "", ""
}
