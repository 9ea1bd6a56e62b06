// Program prometheus evaluates alerting rules on scraped pages, with the parser, the storage, the query engine and the rule manager
// of Prometheus. Its argument is a rule file, its input a JSON array of pages, and its output the rules and the alerts that were
// active after each scrape.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math"
	"os"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

const contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// The time of second 0 of the input.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A page that was scraped. Those of one time follow each other, in the order of time.
type page struct {
	// In seconds.
	At int64 `json:"at"`
	// The labels of the target.
	Target map[string]string `json:"target"`
	// In the OpenMetrics text format; missing if the scrape has failed.
	Text *string `json:"text"`
}

type rule struct {
	Name       string  `json:"name"`
	ForSeconds float64 `json:"for_seconds"`
}

type alert struct {
	At          int64             `json:"at"`
	Name        string            `json:"name"`
	Firing      bool              `json:"firing"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type output struct {
	Rules  []rule  `json:"rules"`
	Alerts []alert `json:"alerts"`
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	var pages []page
	if err := json.NewDecoder(os.Stdin).Decode(&pages); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "kinformer-prometheus-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	options := tsdb.DefaultOptions()
	// One block, so that nothing is compacted.
	options.MinBlockDuration = (7 * 24 * time.Hour).Milliseconds()
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(folder, nil, nil, options, nil)
	if err != nil {
		return err
	}
	defer db.Close()
	groups, err := load(db, os.Args[1])
	if err != nil {
		return err
	}
	var out output
	each(groups, func(r *rules.AlertingRule) error {
		r.SetRestored(true)
		out.Rules = append(out.Rules, rule{r.Name(), r.HoldDuration().Seconds()})
		return nil
	})
	// The series of each target at its last scrape.
	known := map[string]map[uint64]labels.Labels{}
	for i, page := range pages {
		target := labels.FromMap(page.Target)
		series, err := appendPage(db, page, known[target.String()])
		if err != nil {
			return err
		}
		known[target.String()] = series
		if i+1 < len(pages) && pages[i+1].At == page.At {
			continue
		}
		for _, group := range groups {
			group.Eval(context.Background(), at(page.At))
		}
		err = each(groups, func(r *rules.AlertingRule) error {
			for _, a := range r.ActiveAlerts() {
				firing := a.State == rules.StateFiring
				out.Alerts = append(out.Alerts, alert{page.At, r.Name(), firing, a.Labels.Map(), a.Annotations.Map()})
			}
			return r.LastError()
		})
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func at(seconds int64) time.Time {
	return start.Add(time.Duration(seconds) * time.Second)
}

func load(db *tsdb.DB, file string) (map[string]*rules.Group, error) {
	syntax := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		Logger: promslog.NewNopLogger(), MaxSamples: 50_000_000, Timeout: time.Minute, Parser: syntax,
	})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(engine, db),
		AppendableV2: db,
		Queryable:    db,
		Context:      context.Background(),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		Logger:       promslog.NewNopLogger(),
		Parser:       syntax,
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	return groups, errors.Join(errs...)
}

func each(groups map[string]*rules.Group, visit func(*rules.AlertingRule) error) error {
	for _, group := range groups {
		for _, r := range group.Rules() {
			if alerting, ok := r.(*rules.AlertingRule); ok {
				if err := visit(alerting); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// appendPage stores the samples of a page, and ends the series that the last page of the target had and this one has not, as a
// scrape does. It returns the series of the page.
func appendPage(db *tsdb.DB, page page, last map[uint64]labels.Labels) (map[uint64]labels.Labels, error) {
	appender := db.Appender(context.Background())
	time := at(page.At).UnixMilli()
	up := labels.NewBuilder(labels.FromMap(page.Target)).Set(labels.MetricName, "up").Labels()
	isUp := 0.0
	series := map[uint64]labels.Labels{}
	if page.Text != nil {
		isUp = 1
		samples, err := textparse.New([]byte(*page.Text), contentType, nil, textparse.ParserOptions{})
		if err != nil {
			return nil, err
		}
		for {
			entry, err := samples.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if entry != textparse.EntrySeries {
				continue
			}
			var own labels.Labels
			samples.Labels(&own)
			builder := labels.NewBuilder(own)
			for name, value := range page.Target {
				builder.Set(name, value)
			}
			all := builder.Labels()
			_, _, sample := samples.Series()
			if _, err := appender.Append(0, all, time, sample); err != nil {
				return nil, err
			}
			series[all.Hash()] = all
		}
	}
	if _, err := appender.Append(0, up, time, isUp); err != nil {
		return nil, err
	}
	for hash, ended := range last {
		if _, ok := series[hash]; !ok {
			if _, err := appender.Append(0, ended, time, math.Float64frombits(value.StaleNaN)); err != nil {
				return nil, err
			}
		}
	}
	return series, appender.Commit()
}
