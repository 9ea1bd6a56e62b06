// Generates src/protobuf/schema.txt, the message layouts of the built-in kinds, by reflection over the struct
// tags of Kubernetes' Go types. The kinds are read from the server's table.
//
//	go run . ../src/registry/builtin.rs > ../src/protobuf/schema.txt
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	aggv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const head = `# The messages of k8s.io/api, apimachinery, apiextensions-apiserver and kube-aggregator 0.37, by reflection over
# their struct tags. A kind: group/version Kind message. A message: its name, then its fields, each as
# number:member:type. Types: s string, y bytes, b bool, i int, u uint, d double, t Time, T MicroTime, D Duration,
# q Quantity, I IntOrString, j raw JSON, L list of strings in a message, M3 message 3, A3 O3 S3 schema 3 or array, bool
# or strings; r before it: repeated; m: map by string; ? after it: left out of JSON when zero. No member: its members
# are those of the message around it.
`

// Types whose JSON differs from the layout of their struct.
var specials = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                           "t",
	reflect.TypeFor[metav1.MicroTime]():                      "T",
	reflect.TypeFor[metav1.Duration]():                       "D",
	reflect.TypeFor[resource.Quantity]():                     "q",
	reflect.TypeFor[intstr.IntOrString]():                    "I",
	reflect.TypeFor[runtime.RawExtension]():                  "j",
	reflect.TypeFor[metav1.FieldsV1]():                       "j",
	reflect.TypeFor[apiextv1.JSON]():                         "j",
	reflect.TypeFor[apiextv1.JSONSchemaPropsOrArray]():       "A",
	reflect.TypeFor[apiextv1.JSONSchemaPropsOrBool]():        "O",
	reflect.TypeFor[apiextv1.JSONSchemaPropsOrStringArray](): "S",
}

type marshaler interface{ Marshal() ([]byte, error) }

var marshalerType = reflect.TypeFor[marshaler]()

type walker struct {
	index map[reflect.Type]int
	lines []string
}

// message returns the number of a message, after recording it and all messages that it refers to.
func (w *walker) message(t reflect.Type) int {
	if at, ok := w.index[t]; ok {
		return at
	}
	at := len(w.lines)
	w.index[t] = at
	w.lines = append(w.lines, "")
	type numbered struct {
		number int
		field  reflect.StructField
	}
	var fields []numbered
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("protobuf")
		if !ok || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(err)
		}
		fields = append(fields, numbered{number, t.Field(i)})
	}
	sort.Slice(fields, func(a, b int) bool { return fields[a].number < fields[b].number })
	line := t.Name()
	for _, f := range fields {
		line += fmt.Sprintf(" %d:%s", f.number, w.field(f.field))
	}
	w.lines[at] = line
	return at
}

// field returns the JSON name and the type of a field.
func (w *walker) field(f reflect.StructField) string {
	member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if member == "" && !f.Anonymous {
		member = f.Name
	}
	t, pointer := f.Type, false
	if t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	card, element := "", t
	switch _, special := specials[t]; {
	case special:
	case t.Kind() == reflect.Map:
		card, element = "m", t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !reflect.PointerTo(t).Implements(marshalerType):
		card, element = "r", t.Elem()
	}
	if element.Kind() == reflect.Pointer {
		element = element.Elem()
	}
	code := w.code(element)
	omit := card == "" && !pointer && element.Kind() != reflect.Struct && strings.Contains(","+options+",", ",omitempty,")
	if omit {
		code += "?"
	}
	return member + ":" + card + code
}

func (w *walker) code(t reflect.Type) string {
	if code, ok := specials[t]; ok {
		if strings.Contains("AOS", code) {
			code += strconv.Itoa(w.message(reflect.TypeFor[apiextv1.JSONSchemaProps]()))
		}
		return code
	}
	switch t.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Int16, reflect.Int8:
		return "i"
	case reflect.Uint, reflect.Uint32, reflect.Uint64, reflect.Uint16, reflect.Uint8:
		return "u"
	case reflect.Float64:
		return "d"
	case reflect.Struct:
		return "M" + strconv.Itoa(w.message(t))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		return "L"
	}
	panic(fmt.Sprint("no code for ", t))
}

func main() {
	s := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{apiextv1.AddToScheme, aggv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	table, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	kinds := []schema.GroupVersionKind{
		{Version: "v1", Kind: "Binding"}, {Version: "v1", Kind: "Status"},
		{Group: "policy", Version: "v1", Kind: "Eviction"}, {Group: "autoscaling", Version: "v1", Kind: "Scale"},
	}
	row := regexp.MustCompile(`row\("([^"]*)",\s*"([^"]*)",\s*"[^"]*",\s*"([^"]*)"`)
	for _, m := range row.FindAllStringSubmatch(string(table), -1) {
		kinds = append(kinds, schema.GroupVersionKind{Group: m[1], Version: m[2], Kind: m[3]})
	}
	sort.Slice(kinds, func(a, b int) bool {
		x, y := kinds[a], kinds[b]
		return x.Group < y.Group || x.Group == y.Group && (x.Version < y.Version || x.Version == y.Version && x.Kind < y.Kind)
	})
	w := &walker{index: map[reflect.Type]int{}}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	fmt.Fprint(out, head)
	known := s.AllKnownTypes()
	for _, k := range kinds {
		fmt.Fprintln(out, "kind", k.GroupVersion(), k.Kind, w.message(known[k]))
	}
	fmt.Fprintln(out, "kind * DeleteOptions", w.message(reflect.TypeFor[metav1.DeleteOptions]()))
	for _, line := range w.lines {
		fmt.Fprintln(out, line)
	}
}
