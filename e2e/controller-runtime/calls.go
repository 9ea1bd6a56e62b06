package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bound is the timeout of a call that has none of its own.
const bound = 20 * time.Second

// call is a line of the input. Which fields a call has depends on its name.
type call struct {
	Call    string  `json:"call"`
	Options options `json:"options"`
	// Kind is the kind of the objects, and View how they are read: typed, dynamic or metadata.
	Kind      string `json:"kind"`
	View      string `json:"view"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Labels    string `json:"labels"`
	Fields    string `json:"fields"`
	Limit     int64  `json:"limit"`
	// Field is the name of an index by the value at Path, or without it, by the images of the containers.
	Field string   `json:"field"`
	Path  []string `json:"path"`
	// As names an informer for later calls, and Of is such a name.
	As string `json:"as"`
	Of string `json:"of"`
	// WithoutWait: an informer is not waited for.
	WithoutWait bool `json:"withoutWait"`
	// Until are the keys for which a list is repeated.
	Until []string `json:"until"`
	// Object is written, Patch is a merge patch, and Count the number of objects.
	Object map[string]any `json:"object"`
	Patch  map[string]any `json:"patch"`
	DryRun bool           `json:"dryRun"`
	Count  int            `json:"count"`
	// Timeout in milliseconds.
	Timeout *int `json:"timeout"`
}

// answer is a line of the output.
type answer map[string]any

func failed(err error) answer {
	return answer{"error": class(err)}
}

// session has the cache that the calls are for.
type session struct {
	config *rest.Config
	// server writes and reads without the cache.
	server client.Client

	cache     cache.Cache
	client    client.Client
	ownWrites bool
	stop      context.CancelFunc
	ended     chan error
	informers map[string]cache.Informer
}

// answerCalls answers each line of the input by one line.
func answerCalls(config *rest.Config, input io.Reader, output io.Writer) error {
	server, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	s := &session{config: config, server: server}
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, 1<<20)
	encoder := json.NewEncoder(output)
	for lines.Scan() {
		var c call
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("%s: %w", lines.Bytes(), err)
		}
		if err := encoder.Encode(s.answer(c)); err != nil {
			return err
		}
	}
	s.end()
	return lines.Err()
}

func (s *session) answer(c call) answer {
	timeout := bound
	if c.Timeout != nil {
		timeout = time.Duration(*c.Timeout) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var result answer
	var err error
	switch c.Call {
	case "cache":
		err = s.begin(c.Options)
	case "start":
		err = s.start()
	case "stop":
		err = s.end()
	case "sync":
		if !s.cache.WaitForCacheSync(ctx) {
			err = context.DeadlineExceeded
		}
	case "index":
		err = s.cache.IndexField(ctx, newObject(c), c.Field, values(c.Path))
	case "get":
		result, err = s.get(ctx, c)
	case "list":
		result, err = s.list(ctx, c)
	case "ordered":
		result, err = s.ordered(ctx, c)
	case "pages":
		result, err = s.pages(ctx, c)
	case "informer":
		result, err = s.informer(ctx, c)
	case "stopped":
		result = s.stopped(ctx, c)
	case "remove":
		err = s.cache.RemoveInformer(ctx, newObject(c))
	case "create", "update", "patch", "status", "delete", "deleteAll":
		err = s.write(ctx, c)
	case "createMany":
		result, err = s.createMany(ctx, c)
	case "outside":
		// A write that the cache does not know.
		err = writeBy(ctx, s.server, c)
	default:
		err = fmt.Errorf("there is no call %q", c.Call)
	}
	if err != nil {
		return failed(err)
	}
	if result == nil {
		return answer{"ok": true}
	}
	return result
}

// begin replaces the cache.
func (s *session) begin(o options) error {
	if err := s.end(); err != nil {
		return err
	}
	s.informers = map[string]cache.Informer{}
	s.cache, s.client = nil, nil
	cacheOptions, err := o.cacheOptions()
	if err != nil {
		return err
	}
	made, err := cache.New(s.config, cacheOptions)
	if err != nil {
		return err
	}
	of := client.CacheOptions{Reader: made, Unstructured: true, EnableReadYourWritesConsistency: &o.OwnWrites}
	s.client, err = client.New(s.config, client.Options{Cache: &of})
	s.cache, s.ownWrites = made, o.OwnWrites
	return err
}

func (s *session) start() error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	running := s.cache
	go func() { ended <- running.Start(ctx) }()
	if s.stop != nil {
		// A second start ends at once, with an error.
		defer stop()
		select {
		case err := <-ended:
			return err
		case <-time.After(bound):
			return context.DeadlineExceeded
		}
	}
	s.stop, s.ended = stop, ended
	wait, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	s.cache.WaitForCacheSync(wait)
	return nil
}

// end stops the cache.
func (s *session) end() error {
	if s.stop == nil {
		return nil
	}
	s.stop()
	s.stop = nil
	return <-s.ended
}

// reader is the cache, or the client whose reads wait for its writes.
func (s *session) reader() client.Reader {
	if s.ownWrites {
		return s.client
	}
	return s.cache
}

func (s *session) get(ctx context.Context, c call) (answer, error) {
	object := newObject(c)
	if err := s.reader().Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, object); err != nil {
		return nil, err
	}
	return answer{"object": describe(object)}, nil
}

func (c call) listOptions() (*client.ListOptions, error) {
	list := &client.ListOptions{Namespace: c.Namespace, Limit: c.Limit}
	var err error
	if c.Labels != "" {
		if list.LabelSelector, err = labels.Parse(c.Labels); err != nil {
			return nil, err
		}
	}
	if c.Fields != "" {
		if list.FieldSelector, err = fields.ParseSelector(c.Fields); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// keys lists objects, and returns their keys in the order of the list.
func (s *session) keys(ctx context.Context, c call, list *client.ListOptions) (client.ObjectList, []string, error) {
	objects := newList(c)
	if err := s.reader().List(ctx, objects, list); err != nil {
		return nil, nil, err
	}
	keys, err := keysOf(objects)
	return objects, keys, err
}

func (s *session) list(ctx context.Context, c call) (answer, error) {
	list, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	for {
		_, keys, err := s.keys(ctx, c, list)
		if err != nil {
			return nil, err
		}
		slices.Sort(keys)
		switch {
		case c.Limit > 0:
			// Which ones is not defined.
			return answer{"count": len(keys)}, nil
		case c.Until == nil || slices.Equal(keys, c.Until):
			return answer{"keys": keys}, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w: there are %v", ctx.Err(), keys)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ordered reports whether lists are ordered by namespace and name.
func (s *session) ordered(ctx context.Context, c call) (answer, error) {
	ordered := true
	for range 40 {
		_, keys, err := s.keys(ctx, c, &client.ListOptions{})
		if err != nil {
			return nil, err
		}
		ordered = ordered && slices.IsSorted(keys)
	}
	return answer{"ordered": ordered}, nil
}

// pages lists by pages of a limit, each with the token of the page before.
func (s *session) pages(ctx context.Context, c call) (answer, error) {
	list, err := c.listOptions()
	if err != nil {
		return nil, err
	}
	list.Limit = int64(c.Count)
	all := []string{}
	for pages := 1; ; pages++ {
		objects, keys, err := s.keys(ctx, c, list)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
		if list.Continue = objects.GetContinue(); list.Continue == "" {
			slices.Sort(all)
			return answer{"keys": all, "pages": pages}, nil
		}
	}
}

// informer gets the informer of a kind, and if it is waited for, the keys of its first additions.
func (s *session) informer(ctx context.Context, c call) (answer, error) {
	informer, err := s.cache.GetInformer(ctx, newObject(c), cache.BlockUntilSynced(!c.WithoutWait))
	if err != nil {
		return nil, err
	}
	if c.As != "" {
		s.informers[c.As] = informer
	}
	if c.WithoutWait {
		return answer{"ok": true}, nil
	}
	var mutex sync.Mutex
	added := []string{}
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		mutex.Lock()
		defer mutex.Unlock()
		object1 := object.(client.Object)
		added = append(added, key(object1)+" "+kindOf(object1))
	}})
	if err != nil {
		return nil, err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), handler.HasSynced) {
		return nil, context.DeadlineExceeded
	}
	mutex.Lock()
	defer mutex.Unlock()
	slices.Sort(added)
	return answer{"added": added}, informer.RemoveEventHandler(handler)
}

// stopped reports whether an informer has stopped, or stops soon if it should.
func (s *session) stopped(ctx context.Context, c call) answer {
	informer := s.informers[c.Of]
	for ctx.Err() == nil && !informer.IsStopped() {
		time.Sleep(5 * time.Millisecond)
	}
	return answer{"stopped": informer.IsStopped()}
}

func (s *session) write(ctx context.Context, c call) error {
	return writeBy(ctx, s.client, c)
}

// createMany creates objects, each followed by a read, and reports how many of them the reads did not find.
func (s *session) createMany(ctx context.Context, c call) (answer, error) {
	unseen := 0
	for number := range c.Count {
		name := fmt.Sprintf("%s-%d", c.Name, number)
		object, err := fromObject(c, map[string]any{"metadata": map[string]any{
			"name": name, "namespace": c.Namespace, "labels": map[string]any{"many": c.Name},
		}})
		if err != nil {
			return nil, err
		}
		if err := s.client.Create(ctx, object); err != nil {
			return nil, err
		}
		err = s.reader().Get(ctx, client.ObjectKeyFromObject(object), newObject(c))
		if class(err) == "notFound" {
			unseen++
		} else if err != nil {
			return nil, err
		}
	}
	err := s.server.DeleteAllOf(ctx, newObject(call{Kind: c.Kind, View: "typed"}), client.InNamespace(c.Namespace),
		client.MatchingLabels{"many": c.Name})
	return answer{"allSeen": unseen == 0}, err
}

func writeBy(ctx context.Context, by client.Client, c call) error {
	name := c.Call
	if name == "outside" {
		name = c.View
		c.View = "dynamic"
	}
	object, err := fromObject(c, c.Object)
	if err != nil {
		return err
	}
	var dryRun []string
	if c.DryRun {
		dryRun = []string{"All"}
	}
	raw, err := json.Marshal(c.Patch)
	if err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", raw)
	switch name {
	case "create":
		return by.Create(ctx, object, &client.CreateOptions{DryRun: dryRun})
	case "update":
		return by.Update(ctx, object, &client.UpdateOptions{DryRun: dryRun})
	case "patch":
		return by.Patch(ctx, object, patch, &client.PatchOptions{DryRun: dryRun})
	case "status":
		return by.Status().Patch(ctx, object, patch)
	case "delete":
		return by.Delete(ctx, object, &client.DeleteOptions{DryRun: dryRun})
	case "deleteAll":
		return by.DeleteAllOf(ctx, object, client.InNamespace(c.Namespace))
	default:
		return fmt.Errorf("there is no write %q", name)
	}
}

// values returns an index function by the value at a path, or by the images of the containers.
func values(path []string) client.IndexerFunc {
	return func(object client.Object) []string {
		content := contentOf(object)
		if len(path) > 0 {
			if value, found, err := unstructured.NestedFieldNoCopy(content, path...); found && err == nil {
				return []string{fmt.Sprint(value)}
			}
			return nil
		}
		var images []string
		containers, _, _ := unstructured.NestedSlice(content, "spec", "containers")
		for _, container := range containers {
			if image, ok := container.(map[string]any)["image"].(string); ok {
				images = append(images, image)
			}
		}
		return images
	}
}

func key(object client.Object) string {
	return strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}
