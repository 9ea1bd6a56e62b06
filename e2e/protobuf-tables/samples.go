package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// serializers are the serializers of a server.
type serializers struct {
	protobuf *protobuf.Serializer
	json     *serializerjson.Serializer
}

func newSerializers(s *runtime.Scheme) serializers {
	return serializers{
		protobuf.NewSerializer(s, s),
		serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, s, s, serializerjson.SerializerOptions{}),
	}
}

func encode(encoder runtime.Encoder, object runtime.Object) []byte {
	var out bytes.Buffer
	check(encoder.Encode(object, &out))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// random returns an object as a server has it: decoded from protobuf, which does not distinguish empty and absent lists.
func random(s *runtime.Scheme, with serializers, k kind, seed int64) runtime.Object {
	object, err := s.New(k.GroupVersionKind)
	check(err)
	filler(seed).Fill(object)
	object.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	read, _, err := with.protobuf.Decode(encode(with.protobuf, object), &k.GroupVersionKind, nil)
	check(err)
	read.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return read
}

// samples writes for each kind its name, and then the given number of objects, each in protobuf and in JSON.
func samples(out io.Writer, s *runtime.Scheme, count, seed int64) {
	with := newSerializers(s)
	for at, k := range kinds(s) {
		for i := range count {
			object := random(s, with, k, seed+int64(at)*1_000_003+i)
			part(out, fmt.Appendf(nil, "%s %s", k.GroupVersion(), k.Kind))
			part(out, encode(with.protobuf, object))
			part(out, encode(with.json, object))
		}
	}
}

var texts = []string{
	"", "a", "app", "kube-system", "10.0.0.1", "äöü-✓", "with \"quotes\", \\ and\n", "<html>&", "\x00\x1f\u2028",
	strings.Repeat("long", 40),
}

var numbers = []int64{0, 0, 1, 80, -1, 8080, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63}

func pick[T any](c randfill.Continue, of []T) T { return of[c.Intn(len(of))] }

// anyJSON returns nested numbers, strings, lists and objects, as encoding/json writes them.
func anyJSON(c randfill.Continue, depth int) any {
	switch c.Intn(8) {
	case 0:
		return nil
	case 1:
		return c.Bool()
	case 2:
		return c.Int63n(1 << 53)
	case 3:
		return -c.Rand.Float64() * 1e6
	case 4:
		if depth > 0 {
			return []any{anyJSON(c, depth-1), anyJSON(c, depth-1)}
		}
	case 5, 6:
		if depth > 0 {
			return map[string]any{"f:a": anyJSON(c, depth-1), "k:{\"x\":1}": anyJSON(c, depth-1)}
		}
	}
	return pick(c, texts)
}

func raw(value any) []byte {
	out, err := json.Marshal(value)
	check(err)
	return out
}

// anyTime returns a time in whole units between the years 1 and 9999, or sometimes the zero time.
func anyTime(c randfill.Continue, unit int64) time.Time {
	switch c.Intn(12) {
	case 0:
		return time.Time{}
	case 1, 2:
		return time.Unix(-62135596800+1+c.Int63n(315537897600-1), c.Int63n(1e9/unit)*unit).UTC()
	default:
		return time.Unix(c.Int63n(4e9), c.Int63n(1e9/unit)*unit).UTC()
	}
}

func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(.7).NumElements(1, 2).MaxDepth(16).Funcs(
		func(v *string, c randfill.Continue) { *v = pick(c, texts) },
		func(v *int64, c randfill.Continue) { *v = pick(c, numbers) },
		func(v *int32, c randfill.Continue) { *v = int32(pick(c, numbers[:8])) },
		func(v *float64, c randfill.Continue) { *v = pick(c, []float64{0, 1, -1.5, 1e21, 3.14159, 0.1}) },
		func(v *metav1.TypeMeta, c randfill.Continue) {},
		func(v *metav1.Time, c randfill.Continue) { v.Time = anyTime(c, 1e9) },
		func(v *metav1.Condition, c randfill.Continue) {
			c.FillNoCustom(v)
			// Conditions always have a time, which clients rely on.
			v.LastTransitionTime = metav1.NewTime(time.Unix(c.Int63n(4e9), 0).UTC())
		},
		func(v *metav1.MicroTime, c randfill.Continue) { v.Time = anyTime(c, 1000) },
		func(v *resource.Quantity, c randfill.Continue) {
			*v = resource.MustParse(pick(c, []string{
				"0", "100m", "1500m", "512Mi", "1Gi", "3", "12e6", "1n", "-2k", "123456789123456789123",
			}))
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			if c.Bool() {
				*v = intstr.FromInt32(int32(pick(c, numbers[:8])))
			} else {
				*v = intstr.FromString(pick(c, texts))
			}
		},
		func(v *runtime.RawExtension, c randfill.Continue) {
			if c.Intn(6) > 0 {
				v.Raw = raw(map[string]any{"apiVersion": "v1", "kind": "X", "v": anyJSON(c, 3)})
			}
		},
		func(v *metav1.FieldsV1, c randfill.Continue) {
			if c.Intn(6) > 0 {
				*v = *metav1.NewFieldsV1(string(raw(map[string]any{"f:x": anyJSON(c, 3)})))
			}
		},
		func(v *apiextensionsv1.JSON, c randfill.Continue) { v.Raw = raw(anyJSON(c, 3)) },
		func(v *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if c.Bool() {
				v.Allows, v.Schema = true, &apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: "x"}
			} else {
				v.Allows = c.Bool()
			}
		},
		func(v *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Bool() {
				v.Schema = &apiextensionsv1.JSONSchemaProps{Format: "date"}
			} else {
				v.JSONSchemas = []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "null", Nullable: true}}
			}
		},
		func(v *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Bool() {
				v.Schema = &apiextensionsv1.JSONSchemaProps{Format: "date"}
			} else {
				v.Property = []string{"a", "b"}
			}
		},
	)
}
