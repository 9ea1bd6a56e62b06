package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// typed is an informer of pods, after a few writes by the typed client, which writes protobuf. It prints what happens, one
// line each, until the pod "end" has been deleted.
func typed(config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	maps := client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"},
		Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"x": {1, 2}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["a"] = "c"
	if _, err = maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	uid := made.UID
	if err = maps.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		return err
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	ended := make(chan struct{})
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { fmt.Println("ADD", o.(*corev1.Pod).Name) },
		UpdateFunc: func(_, o any) {
			fmt.Println("UPDATE", o.(*corev1.Pod).Name, o.(*corev1.Pod).Labels["n"])
		},
		DeleteFunc: func(o any) {
			key := key(o)
			fmt.Println("DELETE", key)
			if key == "default/end" {
				close(ended)
			}
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("not synced")
		}
	}
	fmt.Println("SYNCED", len(pods.GetStore().ListKeys()))
	select {
	case <-ended:
		fmt.Println("END", len(pods.GetStore().ListKeys()))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
