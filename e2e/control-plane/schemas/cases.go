package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// caseSchema has each type of list and map.
const caseSchema = `{"type":"object","properties":{"spec":{"type":"object","properties":{
"name":{"type":"string"},"count":{"type":"integer"},"flag":{"type":"boolean"},"amount":{"x-kubernetes-int-or-string":true},
"args":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"atomic"},
"tags":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
"numbers":{"type":"array","items":{"type":"integer"},"x-kubernetes-list-type":"set"},
"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"],"items":{"type":"object",
 "properties":{"port":{"type":"integer"},"protocol":{"type":"string","default":"TCP"},"name":{"type":"string"}}}},
"containers":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object",
 "properties":{"name":{"type":"string"},"image":{"type":"string"},"args":{"type":"array","items":{"type":"string"}},
 "env":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object",
  "properties":{"name":{"type":"string"},"value":{"type":"string"}}}}}}},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"selector":{"type":"object","additionalProperties":{"type":"string"},"x-kubernetes-map-type":"atomic"},
"nested":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"integer"}}},"d":{"type":"string"}}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"any":{"x-kubernetes-preserve-unknown-fields":true}}}}}`

const (
	caseVersion = "example.com/v1"
	caseKind    = "Widget"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// step is a request and its result.
type step struct {
	Manager string         `json:"manager"`
	Apply   bool           `json:"apply,omitempty"`
	Force   bool           `json:"force,omitempty"`
	Object  map[string]any `json:"object"`
	Error   string         `json:"error,omitempty"`
	Result  map[string]any `json:"result,omitempty"`
}

func caseConverter() managedfields.TypeConverter {
	var root spec.Schema
	check(json.Unmarshal([]byte(caseSchema), &root))
	types := definitions([]string{"io.k8s.api.core.v1.ConfigMap"})
	root.Properties["apiVersion"] = *spec.StringProperty()
	root.Properties["kind"] = *spec.StringProperty()
	root.Properties["metadata"] = *spec.RefSchema("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
	root.Extensions = spec.Extensions{"x-kubernetes-group-version-kind": []any{
		map[string]any{"group": "example.com", "version": "v1", "kind": caseKind},
	}}
	types["com.example.v1.Widget"] = &root
	converter, err := managedfields.NewTypeConverter(types, false)
	check(err)
	return converter
}

// cases writes the schema, then each case that has a kind of step which no case before has, as a line: a list of steps.
func cases(out io.Writer, count, seed int64) {
	var compact any
	check(json.Unmarshal([]byte(caseSchema), &compact))
	encoder := json.NewEncoder(out)
	check(encoder.Encode(compact))
	converter := caseConverter()
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: caseKind}
	seen := map[string]bool{}
	for number := range count {
		g := generator{rand.New(rand.NewSource(seed + number))}
		manager := managedfieldstest.NewTestFieldManager(converter, gvk)
		var steps []step
		for range 3 + g.Intn(6) {
			steps = append(steps, g.step(&manager))
		}
		isNew := false
		for _, kind := range stepKinds(steps) {
			isNew = isNew || !seen[kind]
			seen[kind] = true
		}
		if isNew {
			check(encoder.Encode(steps))
		}
	}
}

// stepKinds describes steps: who writes, how, after whom, with what result, and the type of the value of each field.
func stepKinds(steps []step) []string {
	var all []string
	before := ""
	for _, s := range steps {
		manager := s.Manager
		if len(manager) == 1 {
			manager = "other"
		}
		write := fmt.Sprint(manager, " ", s.Apply, " ", s.Force)
		result := outcome(s.Error)
		all = append(all, write+" "+result, before+" then "+write+" "+result)
		before = write
		spec, _ := s.Object["spec"].(map[string]any)
		for name, value := range spec {
			if strings.HasPrefix(result, "conflict") {
				result = "conflict"
			}
			all = append(all, fmt.Sprintf("%s %s %v %s", name, typeName(value), s.Apply, result))
		}
	}
	return all
}

func typeName(value any) string {
	switch value.(type) {
	case map[string]any:
		return "map"
	case []any:
		return "list"
	default:
		return fmt.Sprintf("%T", value)
	}
}

var problem = regexp.MustCompile(`expected [a-z]+|duplicate entries|not declared|[a-z ]{9,}`)

// outcome is the kind of an error.
func outcome(message string) string {
	for _, word := range []string{"errors:", "conflicts:", "conflict:"} {
		if strings.Contains(message, word) {
			return word
		}
	}
	if _, after, found := strings.Cut(message, "Kind="+caseKind+"): "); found {
		message = after
	}
	return problem.FindString(message)
}

type generator struct{ *rand.Rand }

func (g generator) chance(percent int) bool { return g.Intn(100) < percent }

func pick[T any](g generator, values ...T) T { return values[g.Intn(len(values))] }

func (g generator) step(manager *managedfieldstest.TestFieldManager) step {
	s := step{Manager: pick(g, "a", "b", "kubectl"), Apply: g.chance(65)}
	if !s.Apply {
		s.Manager = pick(g, "c", "d", "kubectl-client-side-apply")
	}
	s.Force = s.Apply && g.chance(35)
	s.Object = g.object(!s.Apply)
	if !s.Apply && g.chance(30) {
		text, err := json.Marshal(s.Object)
		check(err)
		s.Object["metadata"].(map[string]any)["annotations"] = map[string]any{lastApplied: string(text)}
	}
	// the field manager changes its arguments
	var copied unstructured.Unstructured
	text, err := json.Marshal(s.Object)
	check(err)
	check(json.Unmarshal(text, &copied.Object))
	object := &unstructured.Unstructured{Object: whole(copied.Object).(map[string]any)}
	if s.Apply {
		err = (*manager).Apply(object, s.Manager, s.Force)
	} else {
		err = (*manager).Update(object, s.Manager)
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	live := (*manager).Live().(*unstructured.Unstructured)
	text, err = json.Marshal(live.Object)
	check(err)
	check(json.Unmarshal(text, &s.Result))
	return s
}

// whole replaces numbers by integers, as the decoders of the server do.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = whole(v[name])
		}
	}
	return value
}

func (g generator) object(updates bool) map[string]any {
	metadata := map[string]any{"name": "w", "uid": "u"}
	if g.chance(40) {
		metadata["labels"] = g.texts()
	}
	if g.chance(20) {
		metadata["finalizers"] = g.set(updates)
	}
	object := map[string]any{"apiVersion": caseVersion, "kind": caseKind, "metadata": metadata}
	if !g.chance(5) {
		object["spec"] = g.spec(updates)
	}
	return object
}

func (g generator) spec(updates bool) map[string]any {
	spec := map[string]any{}
	fields := map[string]func() any{
		"name":    func() any { return g.text() },
		"count":   func() any { return g.Intn(3) },
		"flag":    func() any { return g.chance(50) },
		"amount":  func() any { return pick[any](g, 1, "50%") },
		"args":    func() any { return g.list() },
		"tags":    func() any { return g.set(updates) },
		"numbers": func() any { return g.numbers() },
		"ports":   func() any { return g.ports(updates) },
		"containers": func() any {
			return g.keyed(updates, func(item map[string]any) {
				if g.chance(60) {
					item["image"] = g.text()
				}
				if g.chance(30) {
					item["args"] = g.list()
				}
				if g.chance(40) {
					item["env"] = g.keyed(false, func(item map[string]any) { item["value"] = g.text() })
				}
			})
		},
		"labels":   func() any { return g.texts() },
		"selector": func() any { return g.texts() },
		"nested":   func() any { return g.nested() },
		"free":     func() any { return g.free(2) },
		"any":      func() any { return pick[any](g, g.text(), g.list(), g.free(1), 1) },
	}
	for _, name := range []string{"name", "count", "flag", "amount", "args", "tags", "numbers", "ports", "containers",
		"labels", "selector", "nested", "free", "any"} {
		if !g.chance(35) {
			continue
		}
		spec[name] = fields[name]()
		if g.chance(3) {
			spec[name] = nil
		}
	}
	if !updates && g.chance(3) {
		spec[pick(g, "name", "flag", "tags", "labels", "count")] = pick[any](g, 1, "x", true, map[string]any{}, []any{"a"})
	}
	if !updates && g.chance(2) {
		spec["unknown"] = 1
	}
	return spec
}

func (g generator) text() string { return pick(g, "x", "y", "z") }

func (g generator) list() []any {
	items := []any{}
	for range g.Intn(3) {
		items = append(items, g.text())
	}
	return items
}

func (g generator) set(duplicates bool) []any {
	items := []any{}
	for _, i := range g.Perm(4)[:g.Intn(4)] {
		items = append(items, string(rune('k'+i)))
	}
	if (duplicates || g.chance(3)) && len(items) > 0 && g.chance(15) {
		items = append(items, items[0])
	}
	return items
}

func (g generator) numbers() []any {
	items := []any{}
	for _, i := range g.Perm(4)[:g.Intn(4)] {
		items = append(items, i*9)
	}
	return items
}

func (g generator) texts() map[string]any {
	values := map[string]any{}
	for _, i := range g.Perm(3)[:g.Intn(4)] {
		values[string(rune('p'+i))] = g.text()
	}
	return values
}

func (g generator) ports(duplicates bool) []any {
	items := []any{}
	for _, i := range g.Perm(6)[:g.Intn(4)] {
		item := map[string]any{"port": []int{9, 80, 443}[i/2]}
		if i%2 == 1 {
			item["protocol"] = "UDP"
		} else if g.chance(50) {
			item["protocol"] = "TCP"
		}
		if g.chance(50) {
			item["name"] = g.text()
		}
		items = append(items, item)
	}
	if (duplicates || g.chance(3)) && len(items) > 0 && g.chance(15) {
		items = append(items, map[string]any{"port": 80, "name": g.text()})
	}
	return items
}

func (g generator) keyed(duplicates bool, fill func(map[string]any)) []any {
	items := []any{}
	for _, i := range g.Perm(4)[:g.Intn(4)] {
		item := map[string]any{"name": fmt.Sprintf("c%d", i)}
		fill(item)
		items = append(items, item)
	}
	if duplicates && g.chance(8) {
		items = append(items, map[string]any{"name": "c1"}, map[string]any{"name": "c1"})
	}
	return items
}

func (g generator) nested() map[string]any {
	nested := map[string]any{}
	if g.chance(60) {
		a := map[string]any{}
		if g.chance(60) {
			a["b"] = g.text()
		}
		if g.chance(60) {
			a["c"] = g.Intn(2)
		}
		nested["a"] = a
	}
	if g.chance(40) {
		nested["d"] = g.text()
	}
	return nested
}

func (g generator) free(depth int) map[string]any {
	values := map[string]any{}
	for _, i := range g.Perm(3)[:g.Intn(4)] {
		name := string(rune('e' + i))
		switch {
		case depth > 0 && g.chance(50):
			values[name] = g.free(depth - 1)
		case g.chance(20):
			values[name] = g.list()
		default:
			values[name] = pick[any](g, g.text(), g.Intn(2), true)
		}
	}
	return values
}
