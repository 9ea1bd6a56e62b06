// An informer of client-go, and a few writes by its typed client. Prints what happens, one line each, until the
// pod "end" has been deleted.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func must(err error) {
	if err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
}

func main() {
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: os.Args[1]})
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	// The typed client writes protobuf.
	maps := client.CoreV1().ConfigMaps("default")
	made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "go-"},
		Data: map[string]string{"a": "b"}, BinaryData: map[string][]byte{"x": {1, 2}}}, metav1.CreateOptions{})
	must(err)
	made.Data["a"] = "c"
	_, err = maps.Update(ctx, made, metav1.UpdateOptions{})
	must(err)
	uid := made.UID
	must(maps.Delete(ctx, made.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))

	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	ended := make(chan struct{})
	_, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { fmt.Println("ADD", o.(*corev1.Pod).Name) },
		UpdateFunc: func(_, o any) {
			fmt.Println("UPDATE", o.(*corev1.Pod).Name, o.(*corev1.Pod).Labels["n"])
		},
		DeleteFunc: func(o any) {
			key, _ := cache.DeletionHandlingMetaNamespaceKeyFunc(o)
			fmt.Println("DELETE", key)
			if key == "default/end" {
				close(ended)
			}
		},
	})
	must(err)
	factory.Start(ctx.Done())
	for _, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			must(fmt.Errorf("not synced"))
		}
	}
	fmt.Println("SYNCED", len(pods.GetStore().ListKeys()))
	select {
	case <-ended:
		fmt.Println("END", len(pods.GetStore().ListKeys()))
	case <-ctx.Done():
		must(ctx.Err())
	}
}
