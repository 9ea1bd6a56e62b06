package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// operatorOptions are the options of an operator.
type operatorOptions struct {
	// namespace is that of the config maps and of the Lease.
	namespace string
	// objects is the number of config maps.
	objects int
	// metrics is the address of the metrics; 0 is none.
	metrics string
	strip   bool
	warmup  bool
}

// operator reconciles config maps: a reconciliation reads one from the cache, and fails if its data say so.
type operator struct {
	client  client.Client
	objects int
	output  lines
	began   sync.Once

	// queue is that of the controller, which begins with a leadership.
	queue chan workqueue.TypedRateLimitingInterface[ctrl.Request]
	// first has the keys of the first reconciliations until each object was reconciled.
	mutex sync.Mutex
	first map[ctrl.Request]bool
	// left is the number of reconciliations that a request waits for.
	left atomic.Int64
	done chan struct{}
}

// lines writes lines of JSON.
type lines struct {
	mutex  sync.Mutex
	output io.Writer
}

func (l *lines) print(line any) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if err := json.NewEncoder(l.output).Encode(line); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// event is a line of an operator.
type event struct {
	Event string `json:"event"`
}

func (o *operator) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	o.began.Do(func() { o.output.print(event{"first"}) })
	var object corev1.ConfigMap
	if err := o.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if reason, fails := object.Data["fail"]; fails {
		return ctrl.Result{}, errors.New(reason)
	}
	o.complete(request)
	return ctrl.Result{}, nil
}

// complete counts a reconciliation that has succeeded.
func (o *operator) complete(request ctrl.Request) {
	if o.left.Add(-1) == 0 {
		o.done <- struct{}{}
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.first == nil || o.first[request] {
		return
	}
	o.first[request] = true
	if len(o.first) == o.objects {
		o.first = nil
		o.output.print(event{"all"})
	}
}

// repeat enqueues all objects and waits until each is reconciled, this many times.
func (o *operator) repeat(ctx context.Context, namespace string, times int) (measured, error) {
	var list corev1.ConfigMapList
	if err := o.client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return measured{}, err
	}
	keys := make([]ctrl.Request, len(list.Items))
	for i := range list.Items {
		keys[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	list = corev1.ConfigMapList{}
	queue := <-o.queue
	start := time.Now()
	for range times {
		o.left.Store(int64(len(keys)))
		for _, key := range keys {
			queue.Add(key)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return measured{}, ctx.Err()
		}
	}
	o.queue <- queue
	return measured{Seconds: time.Since(start).Seconds(), Objects: len(keys)}, nil
}

// answer answers each line of the input, a number of times to reconcile all objects.
func (o *operator) answer(ctx context.Context, input io.Reader, namespace string) error {
	for lines := bufio.NewScanner(input); lines.Scan(); {
		var times int
		if _, err := fmt.Sscan(lines.Text(), &times); err != nil {
			return err
		}
		answer, err := o.repeat(ctx, namespace, times)
		if err != nil {
			return err
		}
		o.output.print(answer)
	}
	return nil
}

// each is a task that runs in each replica, not only in the leader.
type each func(context.Context) error

func (run each) Start(ctx context.Context) error { return run(ctx) }

func (each) NeedLeaderElection() bool { return false }

// runOperator runs a manager with a controller of config maps, a leader election and metrics, until the process receives
// SIGTERM or its input ends. It prints when it has started, also if another replica is the leader, when it reconciles
// first, and when each object was reconciled. Each line of the input is a number of times to reconcile all objects.
func runOperator(config *rest.Config, o operatorOptions) error {
	made, err := manager.New(config, o.manager())
	if err != nil {
		return err
	}
	run := &operator{
		client: made.GetClient(), objects: o.objects, output: lines{output: os.Stdout}, done: make(chan struct{}, 1),
		first: map[ctrl.Request]bool{},
		queue: make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1),
	}
	queue := source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		run.queue <- queue
		return nil
	})
	err = ctrl.NewControllerManagedBy(made).
		For(&corev1.ConfigMap{}).
		WatchesRawSource(queue).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8, EnableWarmup: &o.warmup}).
		Complete(run)
	if err != nil {
		return err
	}
	err = made.Add(each(func(context.Context) error {
		run.output.print(event{"started"})
		return nil
	}))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctrl.SetupSignalHandler())
	go func() {
		defer stop()
		if err := run.answer(ctx, os.Stdin, o.namespace); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return made.Start(ctx)
}

func (o operatorOptions) manager() manager.Options {
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	options := manager.Options{
		Metrics:                       server.Options{BindAddress: o.metrics},
		LeaderElection:                true,
		LeaderElectionID:              "operator",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{o.namespace: {}}},
	}
	if o.strip {
		options.Cache.DefaultTransform = cache.TransformStripManagedFields()
	}
	return options
}
