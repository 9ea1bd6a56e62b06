package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readers is the number of goroutines that read at the same time.
const readers = 50

// pods is a cache of pods whose reads are measured.
type pods struct {
	reader client.Reader
	client client.Client
	keys   []client.ObjectKey
}

// measured is the answer to a request: the seconds of one read, and what it returned.
type measured struct {
	Seconds float64 `json:"seconds"`
	// List are the seconds of a list of another namespace after a write.
	List    float64 `json:"list"`
	Objects int     `json:"objects"`
	// Stale is the number of reads without the write before them.
	Stale int `json:"stale"`
}

// measureReads answers each request of the input by a line: a name and a number, of seconds or of writes.
func measureReads(config *rest.Config, shared, ownWrites bool) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	all, err := cache.New(config, cache.Options{
		DefaultTransform:             cache.TransformStripManagedFields(),
		DefaultUnsafeDisableDeepCopy: &shared,
	})
	if err != nil {
		return err
	}
	node := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	if err := all.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", node); err != nil {
		return err
	}
	go all.Start(ctx)
	if !all.WaitForCacheSync(ctx) {
		return errors.New("the cache has not synced")
	}
	of := client.CacheOptions{Reader: all, EnableReadYourWritesConsistency: &ownWrites}
	made, err := client.New(config, client.Options{Cache: &of})
	if err != nil {
		return err
	}
	p := &pods{reader: made, client: made}
	var list corev1.PodList
	if err := p.reader.List(ctx, &list); err != nil {
		return err
	}
	for i := range list.Items {
		p.keys = append(p.keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	slices.SortFunc(p.keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	list = corev1.PodList{}
	output := json.NewEncoder(os.Stdout)
	if err := output.Encode(map[string]int{"stored": len(p.keys)}); err != nil {
		return err
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		var name string
		var number int
		if _, err := fmt.Sscan(input.Text(), &name, &number); err != nil {
			return err
		}
		answer, err := p.measure(ctx, name, number)
		if err != nil {
			return err
		}
		if err := output.Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func (p *pods) measure(ctx context.Context, name string, number int) (measured, error) {
	until := time.Duration(number) * time.Second
	switch name {
	case "get":
		i := 0
		return repeat(until, func() (int, error) { i++; return p.get(ctx, i*7919) })
	case "readers":
		return p.readAtOnce(ctx, until)
	case "writes":
		return p.writes(ctx, number)
	case "namespace":
		return repeat(until, func() (int, error) { return p.list(ctx, client.InNamespace("team-7")) })
	case "field":
		return repeat(until, func() (int, error) { return p.list(ctx, client.MatchingFields{"spec.nodeName": "node-7"}) })
	case "label":
		label := client.MatchingLabels{"app.kubernetes.io/name": "service-7"}
		return repeat(until, func() (int, error) { return p.list(ctx, label) })
	default:
		return measured{}, fmt.Errorf("there is no measurement %q", name)
	}
}

// repeat repeats a read for a while.
func repeat(until time.Duration, read func() (int, error)) (measured, error) {
	start, count, objects := time.Now(), 0, 0
	for time.Since(start) < until {
		var err error
		if objects, err = read(); err != nil {
			return measured{}, err
		}
		count++
	}
	return measured{Seconds: time.Since(start).Seconds() / float64(count), Objects: objects}, nil
}

// isRead reads a pod that was returned: one of its labels.
func isRead(pod *corev1.Pod) int {
	if pod.Labels["tier"] != "" {
		return 1
	}
	return 0
}

func (p *pods) get(ctx context.Context, number int) (int, error) {
	var pod corev1.Pod
	err := p.reader.Get(ctx, p.keys[number%len(p.keys)], &pod)
	return isRead(&pod), err
}

func (p *pods) list(ctx context.Context, options ...client.ListOption) (int, error) {
	var list corev1.PodList
	err := p.reader.List(ctx, &list, options...)
	objects := 0
	for i := range list.Items {
		objects += isRead(&list.Items[i])
	}
	return objects, err
}

func (p *pods) readAtOnce(ctx context.Context, until time.Duration) (measured, error) {
	var gets atomic.Int64
	var failed atomic.Value
	var all sync.WaitGroup
	start := time.Now()
	for reader := range readers {
		all.Go(func() {
			count := 0
			for ; time.Since(start) < until; count++ {
				if _, err := p.get(ctx, reader*200+count*7919); err != nil {
					failed.Store(err)
				}
			}
			gets.Add(int64(count))
		})
	}
	all.Wait()
	if err, ok := failed.Load().(error); ok {
		return measured{}, err
	}
	return measured{Seconds: time.Since(start).Seconds() / float64(gets.Load()), Objects: 1}, nil
}

// writes patches pods, each followed by a get of it, and again, each followed by a list of another namespace.
func (p *pods) writes(ctx context.Context, count int) (measured, error) {
	var gets, lists []float64
	var result measured
	for number := range count {
		key := p.keys[number*97%len(p.keys)]
		value := fmt.Sprintf("%d-%d", os.Getpid(), number)
		if err := p.patch(ctx, key, value); err != nil {
			return result, err
		}
		start := time.Now()
		var pod corev1.Pod
		if err := p.reader.Get(ctx, key, &pod); err != nil {
			return result, err
		}
		gets = append(gets, time.Since(start).Seconds())
		if pod.Annotations["written"] != value {
			result.Stale++
		}
		if err := p.patch(ctx, key, value+"-again"); err != nil {
			return result, err
		}
		other := "team-7"
		if key.Namespace == other {
			other = "team-8"
		}
		start = time.Now()
		objects, err := p.list(ctx, client.InNamespace(other))
		if err != nil {
			return result, err
		}
		lists, result.Objects = append(lists, time.Since(start).Seconds()), objects
	}
	result.Seconds, result.List = median(gets), median(lists)
	return result, nil
}

func (p *pods) patch(ctx context.Context, key client.ObjectKey, value string) error {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = key.Namespace, key.Name
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"written":%q}}}`, value)
	return p.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
