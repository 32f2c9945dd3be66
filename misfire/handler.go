// Package misfire is the misfire handler, whose pass one node of an app does every 15 s: it keeps switches in line, puts
// the runs of dead nodes on record as LOST, and moves executes that no node fired in time. It knows no SQL. Not part of
// qrtz's API.
package misfire

import (
	"context"
	"math"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

// Apps is what the handler needs of app.Store.
type Apps interface {
	Enter(ctx context.Context, now time.Time, interval time.Duration) (app.Window, error)
}

// Nodes is what the handler needs of the cluster.
type Nodes interface {
	Now() time.Time
	Self() node.Instance
	ReadView(ctx context.Context) (node.View, error) // read now
	SyncSwitches(ctx context.Context) error
	Bury(ctx context.Context) ([]node.Node, error)
}

// Executes is what the handler needs of execute.Store. What returns more has done a bounded part of its work, and is to
// be called again for the rest.
type Executes interface {
	OverdueAfter(ctx context.Context, state execute.State, classes []string, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error)
	PausedAfter(ctx context.Context, after execute.Cursor, until time.Time, limit int) ([]*execute.Execute, error)
	New(ctx context.Context, classes []string, limit int) ([]*execute.Execute, error)
	Broken(ctx context.Context, after int64, limit int) ([]*execute.Execute, error)
	Move(ctx context.Context, who node.Instance, from execute.State, moves []execute.Move) (execute.Applied, error)
	StuckExecutes(ctx context.Context, now time.Time) ([]run.Stuck, error)
	Adopt(ctx context.Context) error
	MarkPaused(ctx context.Context) error
	DeriveJobStates(ctx context.Context) (more bool, err error)
}

// Runs is what the handler needs of run.Store.
type Runs interface {
	StuckRuns(ctx context.Context, now time.Time) ([]run.Stuck, error)
	FreeOverlapKeys(ctx context.Context) error
	Abandoned(ctx context.Context) ([]int64, error)
	Lose(ctx context.Context, instance int64, why string) ([]run.LostRun, error)
	CleanHistory(ctx context.Context, now time.Time) (deleted int, more bool, err error)
}

// What one transaction does at most. If only a part of a page is done, the next transaction continues behind it.
const (
	page      = 500       // executes
	maxWalked = 1_000_000 // missed fires looked at one by one, some tenths of a second
	maxRuns   = 2000      // rows of runs, though one execute may leave half as many
)

// Config is what a Handler needs to know.
type Config struct {
	Interval     time.Duration // between passes
	MisfireAfter time.Duration // how late a fire must be to be a misfire
	Log          zerolog.Logger

	// Skipped is told of fires put on record as SKIPPED, Lost of runs put on record as LOST, and Stuck, in every pass, of
	// rows that cannot run by themselves. They must not block; nil is allowed.
	Skipped func([]run.SkippedFire)
	Lost    func([]run.LostRun)
	Stuck   func([]run.Stuck)
}

// Handler is the ClusterMisfireHandler.
type Handler struct {
	apps     Apps
	nodes    Nodes
	executes Executes
	runs     Runs
	cfg      Config
	pacer    *outage.Pacer

	// unfinished says that the last pass was cut off, or failed in some step: then this node does the next one, whichever
	// node has advanced the lock-time window.
	unfinished bool

	came   map[string]execute.Cursor // how far a walk of a pass that was cut off has come
	left   map[string]map[int64]bool // executes that such a walk has left overdue
	healed int64                     // the same of heal: an id
}

// New returns a handler.
func New(apps Apps, nodes Nodes, executes Executes, runs Runs, cfg Config) *Handler {
	if cfg.Skipped == nil {
		cfg.Skipped = func([]run.SkippedFire) {}
	}
	if cfg.Lost == nil {
		cfg.Lost = func([]run.LostRun) {}
	}
	if cfg.Stuck == nil {
		cfg.Stuck = func([]run.Stuck) {}
	}
	return &Handler{
		apps: apps, nodes: nodes, executes: executes, runs: runs, cfg: cfg, pacer: outage.New(cfg.Log, "misfire handling"),
		healed: math.MinInt64, came: map[string]execute.Cursor{},
		left: map[string]map[int64]bool{"policies": {}, "off": {}, "paused": {}},
	}
}

// cleanHistory deletes the runs that their jobs keep no longer.
func (h *Handler) cleanHistory(ctx context.Context) (more bool, err error) {
	n, more, err := h.runs.CleanHistory(ctx, h.nodes.Now())
	if n > 0 {
		h.cfg.Log.Debug().Int("runs", n).Msg("cleaned history")
	}
	return more, err
}
