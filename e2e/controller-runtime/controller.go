package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var groupVersion = schema.GroupVersion{Group: "bench.kinformer.dev", Version: "v1"}

type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              FooSpec   `json:"spec"`
	Status            FooStatus `json:"status,omitempty"`
}

type FooSpec struct {
	Replicas int    `json:"replicas"`
	Image    string `json:"image"`
}

type FooStatus struct {
	ReadyReplicas int                `json:"readyReplicas"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
}

type FooList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Foo `json:"items"`
}

func (foo *Foo) DeepCopyInto(out *Foo) {
	*out = *foo
	foo.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = nil
	for _, condition := range foo.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, *condition.DeepCopy())
	}
}

func (foo *Foo) DeepCopyObject() runtime.Object {
	out := new(Foo)
	foo.DeepCopyInto(out)
	return out
}

func (list *FooList) DeepCopyObject() runtime.Object {
	out := &FooList{TypeMeta: list.TypeMeta, Items: make([]Foo, len(list.Items))}
	list.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range list.Items {
		list.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// reconciler reconciles Foos, and reports when it has reconciled each of them with all its pods.
type reconciler struct {
	client client.Client
	foos   int

	mutex      sync.Mutex
	reconciled map[string]bool
	pods       int
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var foo Foo
	if err := r.client.Get(ctx, request.NamespacedName, &foo); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := 0
	for number := range foo.Spec.Replicas {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: request.Namespace, Name: fmt.Sprintf("%s-%d", request.Name, number)}
		if err := r.client.Get(ctx, key, &pod); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		if isReady(&pod) {
			ready++
		}
	}
	if foo.Status.ReadyReplicas != ready {
		foo.Status.ReadyReplicas = ready
		return ctrl.Result{}, r.client.Status().Update(ctx, &foo)
	}
	r.complete(request.String(), ready)
	return ctrl.Result{}, nil
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *reconciler) complete(name string, pods int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.reconciled[name] {
		return
	}
	r.reconciled[name] = true
	r.pods += pods
	if len(r.reconciled) == r.foos {
		if err := json.NewEncoder(os.Stdout).Encode(map[string]int{"owners": r.foos, "pods": r.pods}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// runController runs a controller of Foos until the input ends.
//
// Each Foo has pods, which it owns. A reconciliation reads the Foo and its pods from the cache, counts the pods that are
// ready, and writes the status of the Foo if the count is another.
func runController(config *rest.Config, foos int, strip bool) error {
	if foos == 0 {
		return errors.New("-foos is missing")
	}
	scheme := scheme.Scheme
	scheme.AddKnownTypes(groupVersion, &Foo{}, &FooList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	options := ctrl.Options{Scheme: scheme, Metrics: metrics.Options{BindAddress: "0"}}
	if strip {
		options.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields()}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Foo{}).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(&reconciler{client: manager.GetClient(), foos: foos, reconciled: map[string]bool{}})
	if err != nil {
		return err
	}
	// The program ends when its input is closed.
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
		stop()
	}()
	return manager.Start(ctx)
}
