// Measures client-go's work queue for `cargo bench -p benches --bench workqueue`. Prints a line for each case: its name and
// the least nanoseconds for each key.
package main

import (
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// metric is a metric of all kinds that does nothing, so that only the queue's own work is measured.
type metric struct{}

func (metric) Inc()            {}
func (metric) Dec()            {}
func (metric) Set(float64)     {}
func (metric) Observe(float64) {}

// The size makes it comparable, and different from client-go's provider without metrics.
type metrics struct{ _ byte }

func (*metrics) NewDepthMetric(string) workqueue.GaugeMetric                         { return metric{} }
func (*metrics) NewAddsMetric(string) workqueue.CounterMetric                        { return metric{} }
func (*metrics) NewLatencyMetric(string) workqueue.HistogramMetric                   { return metric{} }
func (*metrics) NewWorkDurationMetric(string) workqueue.HistogramMetric              { return metric{} }
func (*metrics) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric { return metric{} }
func (*metrics) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return metric{}
}
func (*metrics) NewRetriesMetric(string) workqueue.CounterMetric { return metric{} }

func keys(count int) []string {
	keys := make([]string, count)
	for number := range keys {
		keys[number] = fmt.Sprintf("default/pod-%d", number)
	}
	return keys
}

// least runs a measurement many times and prints the least time for each key.
func least(name string, runs int, keys int, run func() time.Duration) {
	least := time.Duration(1<<63 - 1)
	for range runs {
		least = min(least, run())
	}
	fmt.Printf("%s %.1f\n", name, float64(least.Nanoseconds())/float64(keys))
}

func main() {
	for _, kind := range []string{"plain", "metrics"} {
		config := workqueue.TypedQueueConfig[string]{}
		if kind == "metrics" {
			config.Name = kind
			config.MetricsProvider = &metrics{}
		}
		for _, count := range []int{1, 1000, 100_000} {
			queue := workqueue.NewTypedWithConfig(config)
			keys := keys(count)
			rounds := max(10_000/count, 1)
			least(fmt.Sprintf("%s-%d", kind, count), 1_000_000/(rounds*count)+5, rounds*count, func() time.Duration {
				start := time.Now()
				for range rounds {
					for _, key := range keys {
						queue.Add(key)
					}
					for range keys {
						key, _ := queue.Get()
						queue.Done(key)
					}
				}
				return time.Since(start)
			})
			queue.ShutDown()
		}
	}
	keys := keys(100_000)
	least("delays-100000", 10, len(keys), func() time.Duration {
		queue := workqueue.NewTypedDelayingQueue[string]()
		defer queue.ShutDown()
		start := time.Now()
		for number, key := range keys {
			micros := uint64(number) * 2_654_435_761 % 1_000_000
			queue.AddAfter(key, time.Hour+time.Duration(micros)*time.Microsecond)
		}
		return time.Since(start)
	})
}
