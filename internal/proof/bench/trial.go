package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// meetIn is from the start of the nodes to the first fire: a poll of each lies in between, made by a node that knows
	// what to claim.
	meetIn = 8 * time.Second

	// agreeIn is how much later the last node knows all others: it may have polled just before the beat that shows them.
	agreeIn = 4 * time.Second

	manyNodes    = 8 // more than these take longer to join
	manyExecutes = 100_000
)

// joinsIn is how much longer it takes many nodes to join.
func joinsIn(nodes int) time.Duration {
	return time.Duration(max(0, nodes-manyNodes)) * 200 * time.Millisecond
}

// storesIn is how long it takes at most to store many executes.
func storesIn(executes int) time.Duration { return time.Duration(executes) * 100 * time.Microsecond }

// trial is a load that some nodes carry for a while.
type trial struct {
	load
	Nodes, Workers int // Workers 0 for the default
	Settle, Window time.Duration
	Ahead          time.Duration // how much later than the window begins the first fire is due: then nothing is

	prepare func(*database) error // before anything else is stored; nil: nothing
}

// offered is how many fires are due a second.
func (t trial) offered() int { return int(math.Round(float64(t.Executes) / t.Every.Seconds())) }

// outcome is what came of it, within its window.
type outcome struct {
	summary
	Did        counters // what the server did
	Unfinished int      // runs at the end that are not on record as finished
}

func (s *site) try(ctx context.Context, t trial) (outcome, error) {
	d, err := s.database(ctx)
	if err != nil {
		return outcome{}, err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if t.prepare != nil {
		if err := t.prepare(d); err != nil {
			return outcome{}, err
		}
	}
	meet := meetIn + joinsIn(t.Nodes)
	t.First = time.Now().Truncate(time.Second).Add(meet)
	storesFirst := t.Executes > manyExecutes
	if storesFirst {
		t.First = t.First.Add(storesIn(t.Executes))
		if err := d.store(ctx, t.load); err != nil {
			return outcome{}, err
		}
		if !sleep(ctx, time.Until(t.First.Add(-meet))) {
			return outcome{}, ctx.Err()
		}
	}
	from := t.First.Add(t.Settle)
	if t.Nodes > 1 {
		from = from.Add(agreeIn)
	}
	end := from.Add(t.Window)
	f, err := s.startNodes(ctx, d, t.Nodes, NodeOptions{Workers: t.Workers, From: from, Until: end})
	if err != nil {
		return outcome{}, err
	}
	defer f.kill()
	if !storesFirst {
		later := t.load
		later.First = t.First.Add(t.Ahead)
		if err := d.store(ctx, later); err != nil {
			return outcome{}, err
		}
	}
	if time.Until(t.First) < meetIn/3 {
		return outcome{}, fmt.Errorf("could not start %d nodes and store %d executes in %s", t.Nodes, t.Executes, meet-meetIn/3)
	}
	var o outcome
	if o.Did, err = s.counted(ctx, from, end); err != nil {
		return outcome{}, err
	}
	if err := d.GetContext(ctx, &o.Unfinished, `SELECT COUNT(*) FROM QRTZ_RUN WHERE APPLICATION = ? AND STATE = 'RUNNING'`, benchApp); err != nil {
		return outcome{}, err
	}
	o.summary, err = f.stop()
	return o, err
}

// counted is what the server does between two points in time.
func (s *site) counted(ctx context.Context, from, end time.Time) (counters, error) {
	if !sleep(ctx, time.Until(from)) {
		return counters{}, ctx.Err()
	}
	before, err := s.counters(ctx)
	if err != nil {
		return counters{}, err
	}
	if !sleep(ctx, time.Until(end)) {
		return counters{}, ctx.Err()
	}
	after, err := s.counters(ctx)
	return after.since(before), err
}

// Late is a distribution of lateness, in milliseconds.
type Late struct {
	Fires int64   `json:"fires"`
	Early int64   `json:"early"` // handlers started before their time: there must be none
	P50   float64 `json:"p50_ms"`
	P90   float64 `json:"p90_ms"`
	P99   float64 `json:"p99_ms"`
	P999  float64 `json:"p999_ms"`
	Max   float64 `json:"max_ms"`

	Curve []Point `json:"curve,omitempty"`
}

// Point says that a percentage of fires was at most so late.
type Point struct {
	Percent float64 `json:"percent"`
	Ms      float64 `json:"ms"`
}

func (s summary) lateness() Late {
	h := hdrhistogram.Import(s.Late)
	ms := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	late := Late{Fires: s.Fires, Early: s.Early, P50: ms(50), P90: ms(90), P99: ms(99), P999: ms(99.9), Max: float64(h.Max()) / 1000}
	for _, percent := range curvePercents {
		if float64(s.Fires)*(100-percent)/100 > 0.99 || percent <= 50 { // what fewer than one fire decides says nothing
			late.Curve = append(late.Curve, Point{percent, ms(percent)})
		}
	}
	return late
}

// curvePercents are spread evenly enough over the axis of a chart on which each tenth of the rest takes as much room.
var curvePercents = []float64{0, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.99}
