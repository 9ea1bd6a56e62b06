package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// kinds are the kinds of the calls, by their names.
var kinds = map[string]schema.GroupVersionKind{
	"Pod":       corev1.SchemeGroupVersion.WithKind("Pod"),
	"Node":      corev1.SchemeGroupVersion.WithKind("Node"),
	"Secret":    corev1.SchemeGroupVersion.WithKind("Secret"),
	"ConfigMap": corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	// A kind whose conversion fails, and one that does not exist.
	"Stuck":   {Group: "test.kinformer.dev", Version: "v2", Kind: "Stuck"},
	"Missing": {Group: "test.kinformer.dev", Version: "v2", Kind: "Missing"},
}

// options are those of a cache. A selector that is not set is inherited.
type options struct {
	selection
	Namespaces map[string]selection `json:"namespaces"`
	ByObject   map[string]byObject  `json:"byObject"`
	// FailOnMissing: reads start no informers.
	FailOnMissing bool `json:"failOnMissing"`
	// OwnWrites: reads wait for the writes of the client.
	OwnWrites bool `json:"ownWrites"`
	// Strip: managed fields are not stored.
	Strip bool `json:"strip"`
}

type selection struct {
	Labels *string `json:"labels"`
	Fields *string `json:"fields"`
	// Transform is the field of the metadata that is removed.
	Transform string `json:"transform"`
}

type byObject struct {
	selection
	Namespaces map[string]selection `json:"namespaces"`
}

func (s selection) config() (cache.Config, error) {
	var config cache.Config
	var err error
	if s.Labels != nil {
		if config.LabelSelector, err = labels.Parse(*s.Labels); err != nil {
			return config, err
		}
	}
	if s.Fields != nil {
		if config.FieldSelector, err = fields.ParseSelector(*s.Fields); err != nil {
			return config, err
		}
	}
	config.Transform = without(s.Transform)
	return config, nil
}

// without returns a transform that removes a field of the metadata.
func without(field string) toolscache.TransformFunc {
	if field == "" {
		return nil
	}
	return func(in any) (any, error) {
		object, err := meta.Accessor(in)
		if err != nil {
			return in, nil
		}
		switch field {
		case "labels":
			object.SetLabels(nil)
		case "annotations":
			object.SetAnnotations(nil)
		}
		return in, nil
	}
}

func namespaces(of map[string]selection) (map[string]cache.Config, error) {
	if of == nil {
		return nil, nil
	}
	all := map[string]cache.Config{}
	for name, selection := range of {
		config, err := selection.config()
		if err != nil {
			return nil, err
		}
		all[name] = config
	}
	return all, nil
}

func (o options) cacheOptions() (cache.Options, error) {
	defaults, err := o.config()
	if err != nil {
		return cache.Options{}, err
	}
	all, err := namespaces(o.Namespaces)
	if err != nil {
		return cache.Options{}, err
	}
	options := cache.Options{
		DefaultLabelSelector:        defaults.LabelSelector,
		DefaultFieldSelector:        defaults.FieldSelector,
		DefaultTransform:            defaults.Transform,
		DefaultNamespaces:           all,
		ReaderFailOnMissingInformer: o.FailOnMissing,
		ByObject:                    map[client.Object]cache.ByObject{},
	}
	if o.Strip {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	for kind, own := range o.ByObject {
		config, err := own.config()
		if err != nil {
			return options, err
		}
		all, err := namespaces(own.Namespaces)
		if err != nil {
			return options, err
		}
		options.ByObject[newObject(call{Kind: kind, View: "typed"})] = cache.ByObject{
			Label: config.LabelSelector, Field: config.FieldSelector, Transform: config.Transform, Namespaces: all,
		}
	}
	return options, nil
}

// newObject returns an empty object of the kind and view of a call.
func newObject(c call) client.Object {
	kind := kinds[c.Kind]
	switch c.View {
	case "metadata":
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind)
		return object
	case "typed":
		if object, err := scheme.Scheme.New(kind); err == nil {
			return object.(client.Object)
		}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

func newList(c call) client.ObjectList {
	kind := kinds[c.Kind]
	kind.Kind += "List"
	switch c.View {
	case "metadata":
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		return list
	case "typed":
		if list, err := scheme.Scheme.New(kind); err == nil {
			return list.(client.ObjectList)
		}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	return list
}

// fromObject returns the object of a call with this content, or with the name of the call.
func fromObject(c call, content map[string]any) (client.Object, error) {
	object := newObject(c)
	if content == nil {
		object.SetNamespace(c.Namespace)
		object.SetName(c.Name)
		return object, nil
	}
	if dynamic, ok := object.(*unstructured.Unstructured); ok {
		kind := dynamic.GroupVersionKind()
		dynamic.Object = content
		dynamic.SetGroupVersionKind(kind)
		return dynamic, nil
	}
	return object, runtime.DefaultUnstructuredConverter.FromUnstructured(content, object)
}

func contentOf(object client.Object) map[string]any {
	if dynamic, ok := object.(*unstructured.Unstructured); ok {
		return dynamic.Object
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	return content
}

// kindOf returns the kind of an object. The objects that handlers of types receive have none.
func kindOf(object client.Object) string {
	kind, err := apiutil.GVKForObject(object, scheme.Scheme)
	if err != nil {
		return err.Error()
	}
	return kind.GroupVersion().String() + "/" + kind.Kind
}

func describe(object client.Object) map[string]any {
	kind := object.GetObjectKind().GroupVersionKind()
	return map[string]any{
		"key":           key(object),
		"kind":          kind.GroupVersion().String() + "/" + kind.Kind,
		"labels":        nonNil(object.GetLabels()),
		"annotations":   nonNil(object.GetAnnotations()),
		"managedFields": len(object.GetManagedFields()) > 0,
		"deleting":      object.GetDeletionTimestamp() != nil,
		"finalizers":    len(object.GetFinalizers()),
	}
}

func nonNil(all map[string]string) map[string]string {
	if all == nil {
		return map[string]string{}
	}
	return all
}

func keysOf(list client.ObjectList) ([]string, error) {
	keys := []string{}
	err := meta.EachListItem(list, func(object runtime.Object) error {
		keys = append(keys, key(object.(client.Object)))
		return nil
	})
	return keys, err
}

// class returns the class of an error, which is the same as that of kinformer's error.
func class(err error) string {
	var notStarted *cache.ErrCacheNotStarted
	var notCached *cache.ErrResourceNotCached
	texts := []struct{ text, class string }{
		{"unknown namespace for the cache", "unknownNamespace"},
		{"non-exact field matches are not supported", "badSelector"},
		{"does not exist", "noIndex"},
		{"indexer conflict", "exists"},
		{"continue list option is not supported", "continueUnsupported"},
		{"ByObject.Namespaces setting is not nil", "clusterScoped"},
		{"informer already started", "startedTwice"},
		{"DeleteAllOf is not supported", "unsupported"},
		{"failed to parse resource version", "noVersion"},
	}
	switch {
	case err == nil:
		return ""
	case errors.As(err, &notStarted):
		return "notStarted"
	case errors.As(err, &notCached):
		return "notCached"
	case meta.IsNoMatchError(err):
		return "unknownKind"
	case apierrors.IsNotFound(err):
		return "notFound"
	case apierrors.IsConflict(err):
		return "conflict"
	case apierrors.IsAlreadyExists(err):
		return "alreadyExists"
	case apierrors.IsTimeout(err), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	for _, known := range texts {
		if strings.Contains(err.Error(), known.text) {
			return known.class
		}
	}
	return fmt.Sprintf("other: %v", err)
}
