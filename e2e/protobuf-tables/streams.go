package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// podJSON is a pod as created by a controller and updated by a kubelet.
//
//go:embed pod.json
var podJSON []byte

// streams writes response bodies, each as its name, protobuf and JSON: lists, a watch, an error object, and a typical
// pod.
func streams(out io.Writer, s *runtime.Scheme, seed int64) {
	with := newSerializers(s)
	write := func(name string, protobuf, json []byte) {
		part(out, []byte(name))
		part(out, protobuf)
		part(out, json)
	}
	one := func(name string, object runtime.Object) {
		gvks, _, err := s.ObjectKinds(object)
		check(err)
		object.GetObjectKind().SetGroupVersionKind(gvks[0])
		write(name, encode(with.protobuf, object), encode(with.json, object))
	}
	remaining := int64(7)
	listMeta := metav1.ListMeta{ResourceVersion: "42", Continue: "next", RemainingItemCount: &remaining}
	pod := kind{corev1.SchemeGroupVersion.WithKind("Pod"), reflect.TypeFor[corev1.Pod]()}
	pods := &corev1.PodList{ListMeta: listMeta}
	partial := &metav1.PartialObjectMetadataList{ListMeta: listMeta}
	for i := range int64(5) {
		object := random(s, with, pod, seed+i).(*corev1.Pod)
		object.TypeMeta = metav1.TypeMeta{}
		object.Name, object.Namespace, object.ResourceVersion = fmt.Sprintf("pod-%d", i), "default", fmt.Sprint(30+i)
		pods.Items = append(pods.Items, *object)
		partial.Items = append(partial.Items, metav1.PartialObjectMetadata{ObjectMeta: object.ObjectMeta})
	}
	one("list", pods)
	one("metadata", partial)
	one("empty", &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
	expired := errors.NewResourceExpired("too old").ErrStatus
	one("status", &expired)
	usual, _, err := with.json.Decode(podJSON, nil, nil)
	check(err)
	one("pod", usual)

	var frames, lines bytes.Buffer
	raw := protobuf.NewRawSerializer(s, s)
	framer := protobuf.LengthDelimitedFramer.NewFrameWriter(&frames)
	event := func(eventType watch.EventType, object runtime.Object) {
		gvks, _, err := s.ObjectKinds(object)
		check(err)
		object.GetObjectKind().SetGroupVersionKind(gvks[0])
		for _, form := range []struct {
			object, event runtime.Encoder
			out           io.Writer
		}{{with.protobuf, raw, framer}, {with.json, with.json, &lines}} {
			e := &metav1.WatchEvent{Type: string(eventType), Object: runtime.RawExtension{Raw: encode(form.object, object)}}
			var whole bytes.Buffer
			check(form.event.Encode(e, &whole))
			_, err := form.out.Write(whole.Bytes())
			check(err)
		}
	}
	for i, eventType := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event(eventType, pods.Items[i].DeepCopy())
	}
	event(watch.Bookmark, bookmark())
	event(watch.Error, &expired)
	write("watch", frames.Bytes(), lines.Bytes())
}

// bookmark returns the bookmark that ends the initial events.
func bookmark() runtime.Object {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "50"}}
	accessor, err := meta.Accessor(object)
	check(err)
	accessor.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return object
}
