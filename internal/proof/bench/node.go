package bench

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz"
)

// NodeOptions say how a node takes part in a measurement. Its clock is also the server's: they share a machine.
type NodeOptions struct {
	DSN, ID     string
	Workers     int           // 0 for the default
	Poll        time.Duration // 0 for the default
	From, Until time.Time     // between which starts are counted
	Asked       askedFor
}

// summary is what a node, or several, have seen between From and Until.
type summary struct {
	Fires int64                  `json:"fires"` // handlers started
	Early int64                  `json:"early"` // before their time
	Late  *hdrhistogram.Snapshot `json:"late"`  // in microseconds
	CPU   time.Duration          `json:"cpu"`   // processor time of the process
	First time.Time              `json:"first"` // when the first handler of all started

	AllCPU    time.Duration   `json:"all_cpu"`   // since From, to the end
	Started   map[int64]int64 `json:"started"`   // of runs that were enqueued, in microseconds
	Committed map[int64]int64 `json:"committed"` // likewise

	HeapMB     float64 `json:"heap_mb"` // live at From
	ResidentMB float64 `json:"resident_mb"`
	PeakMB     float64 `json:"peak_mb"` // resident, in the life of the process
}

// newHistogram takes microseconds up to ten minutes, with an error below one percent.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, (10 * time.Minute).Microseconds(), 2)
}

// recorder is what the handlers of a node write to.
type recorder struct {
	NodeOptions

	mu     sync.Mutex
	sum    summary
	late   *hdrhistogram.Histogram
	before time.Duration // processor time at From
}

func (r *recorder) start(fire time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sum.First.IsZero() {
		r.sum.First = now
	}
	if now.Before(r.From) || !now.Before(r.Until) {
		return
	}
	r.sum.Fires++
	late := now.Sub(fire)
	if late < 0 {
		r.sum.Early++
	}
	_ = r.late.RecordValue(min(max(late.Microseconds(), 1), r.late.HighestTrackableValue()))
}

// measure notes what the process has used between From and Until.
func (r *recorder) measure(ctx context.Context) {
	if !sleep(ctx, time.Until(r.From)) {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	heap, resident, before := float64(m.HeapAlloc)/(1<<20), residentMB("VmRSS"), ownTime()
	r.mu.Lock()
	r.before = before
	r.mu.Unlock()
	if !sleep(ctx, time.Until(r.Until)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.CPU, r.sum.HeapMB, r.sum.ResidentMB = ownTime()-before, heap, resident
}

// Node is a node that takes part in a measurement until ctx ends. It then writes its summary.
func Node(ctx context.Context, o NodeOptions, out io.Writer) error {
	db, err := openPool(o.DSN, 16)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	log := zerolog.New(os.Stderr).Level(zerolog.WarnLevel)
	s, err := qrtz.Open(db.DB, qrtz.Config{
		App: benchApp, DSN: o.DSN, NodeID: o.ID, Workers: o.Workers, PollInterval: o.Poll, NodeTimeout: max(0, 2*o.Poll), Logger: &log,
	})
	if err != nil {
		return err
	}
	r := &recorder{NodeOptions: o, late: newHistogram()}
	qrtz.Handle(s, tick, func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		r.start(run.FireTime)
		return nil
	})
	qrtz.Handle(s, hold, func(ctx context.Context, _ *qrtz.Run, _ struct{}) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	a := newAsks()
	qrtz.Handle(s, asked, func(_ context.Context, run *qrtz.Run, _ struct{}) error {
		a.note(a.started, run.ID)
		r.start(run.FireTime)
		return nil
	})
	go r.measure(ctx)
	var asking sync.WaitGroup
	var failed error
	if o.Asked.Rate > 0 {
		asking.Go(func() { failed = a.ask(ctx, s, db.DB, o) })
	}
	if o.Asked.Client {
		<-ctx.Done()
	} else if err := s.Run(ctx); err != nil {
		return err
	}
	if asking.Wait(); failed != nil && ctx.Err() == nil {
		return failed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.Late, r.sum.PeakMB = r.late.Export(), residentMB("VmHWM")
	r.sum.AllCPU, r.sum.Started, r.sum.Committed = ownTime()-r.before, a.started, a.committed
	return json.NewEncoder(out).Encode(r.sum)
}

// sleep waits, and tells whether it was not interrupted by the end of ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
