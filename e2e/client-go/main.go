// client-go's informers, printing the events of their handlers as lines of `kinformer watch -o json`, so that the
// two can be compared. With -measured, the peer of `cargo xtask bench-peers`; with
// -typed, the typed client and its informer, for the embedded API server.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// line is an event as printed by `kinformer watch -o json`.
type line struct {
	Event              string  `json:"event"`
	Resource           string  `json:"resource"`
	Key                string  `json:"key"`
	ResourceVersion    string  `json:"resourceVersion"`
	OldResourceVersion *string `json:"oldResourceVersion"`
	Initial            bool    `json:"initial"`
	FinalStateUnknown  bool    `json:"finalStateUnknown"`
	// The label "content" of the state, for servers whose versions do not distinguish states.
	Content string `json:"content,omitempty"`
}

var output sync.Mutex

func print(value any) {
	output.Lock()
	defer output.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(value); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func key(obj any) string {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return key
}

func version(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

func content(obj any) string {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return accessor.GetLabels()["content"]
}

func handler(resource string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			print(line{Event: "add", Resource: resource, Key: key(obj), ResourceVersion: version(obj), Initial: initial, Content: content(obj)})
		},
		UpdateFunc: func(old, obj any) {
			before := version(old)
			print(line{Event: "update", Resource: resource, Key: key(obj), ResourceVersion: version(obj), OldResourceVersion: &before, Content: content(obj)})
		},
		DeleteFunc: func(obj any) {
			unknown, isUnknown := obj.(cache.DeletedFinalStateUnknown)
			deleted := line{Event: "delete", Resource: resource, Key: key(obj), FinalStateUnknown: isUnknown}
			if isUnknown {
				obj = unknown.Obj
			}
			deleted.ResourceVersion, deleted.Content = version(obj), content(obj)
			print(deleted)
		},
	}
}

// factory creates the informers, typed or metadata-only.
type factory struct {
	informer func(schema.GroupVersionResource) (cache.SharedIndexInformer, error)
	start    func(<-chan struct{})
	shutdown func()
}

func newFactory(config *rest.Config, onlyMetadata bool) (*factory, error) {
	if onlyMetadata {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		made := metadatainformer.NewSharedInformerFactory(client, 0)
		informer := func(resource schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
			return made.ForResource(resource).Informer(), nil
		}
		return &factory{informer, made.Start, made.Shutdown}, nil
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	made := informers.NewSharedInformerFactory(client, 0)
	informer := func(resource schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
		informer, err := made.ForResource(resource)
		if err != nil {
			return nil, err
		}
		return informer.Informer(), nil
	}
	return &factory{informer, made.Start, made.Shutdown}, nil
}

// measured stores pods with the defaults of client-go, in protobuf as Kubernetes' own components do, with one handler.
// After the sync it reports the number of objects, and then answers requests on stdin until that is closed: for a key,
// the version of that pod; for "report-events", the version of each event from then on.
func measured(config *rest.Config) error {
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	var delivered atomic.Int64
	var reportEvents atomic.Bool
	report := func(obj any) { print(map[string]any{"delivered": delivered.Load(), "version": version(obj)}) }
	handle := func(obj any) {
		delivered.Add(1)
		if reportEvents.Load() {
			report(obj)
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, obj any) { handle(obj) },
		DeleteFunc: handle,
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	// Unlike WaitForCacheSync, this does not poll.
	cache.WaitFor(ctx, "", registration.HasSyncedChecker())
	print(map[string]any{"stored": len(informer.GetStore().ListKeys()), "delivered": delivered.Load()})
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		if input.Text() == "report-events" {
			reportEvents.Store(true)
			continue
		}
		obj, _, err := informer.GetStore().GetByKey(input.Text())
		if err != nil {
			return err
		}
		report(obj)
	}
	return input.Err()
}

func run() error {
	kubeconfig := flag.String("kubeconfig", "", "the kubeconfig")
	onlyMetadata := flag.Bool("metadata", false, "fetch only metadata")
	isMeasured := flag.Bool("measured", false, "store pods, report when they have synced, answer requests on stdin, exit when it is closed")
	isTyped := flag.Bool("typed", false, "write with the typed client, and print the events of pods until the pod end is deleted")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	if *isMeasured {
		return measured(config)
	}
	if *isTyped {
		return typed(config)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	factory, err := newFactory(config, *onlyMetadata)
	if err != nil {
		return err
	}
	for _, argument := range flag.Args() {
		// GROUP/VERSION/RESOURCE, or VERSION/RESOURCE for the core group.
		parts := strings.Split(argument, "/")
		if len(parts) == 2 {
			parts = append([]string{""}, parts...)
		}
		if len(parts) != 3 {
			return fmt.Errorf("%q is not GROUP/VERSION/RESOURCE", argument)
		}
		resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
		informer, err := factory.informer(resource)
		if err != nil {
			return err
		}
		name := resource.GroupResource().String()
		registration, err := informer.AddEventHandler(handler(name))
		if err != nil {
			return err
		}
		go func() {
			if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
				print(map[string]any{"event": "synced", "resource": name, "count": len(informer.GetStore().ListKeys())})
			}
		}()
	}
	factory.start(ctx.Done())
	<-ctx.Done()
	factory.shutdown()
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
