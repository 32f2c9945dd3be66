// Package misfire is the cluster's housekeeping, done by one node of an app at a time: it keeps switches in
// line, puts the runs of dead nodes on record, and repairs what nobody fired in time. It knows no SQL.
package misfire

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/app"
	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/outage"
	"github.com/qrtz-go/qrtz/node"
)

// Apps is what the handler needs of app.Store.
type Apps interface {
	Enter(ctx context.Context, now time.Time, interval time.Duration) (app.Turn, error)
}

// Nodes is what the handler needs of the cluster.
type Nodes interface {
	Now() time.Time
	Self() execute.Instance
	ConnectedFor() time.Duration
	View(ctx context.Context) (node.View, error) // read anew
	SyncSwitches(ctx context.Context) error
	Bury(ctx context.Context, deadline time.Time) ([]node.Node, error)
}

// Executes is what the handler needs of execute.Store.
type Executes interface {
	Overdue(ctx context.Context, state execute.State, classes []string, from, until time.Time, limit int) ([]*execute.Execute, error)
	PausedOverdue(ctx context.Context, until time.Time, limit int) ([]*execute.Execute, error)
	New(ctx context.Context, classes []string, limit int) ([]*execute.Execute, error)
	Broken(ctx context.Context, after int64, limit int) ([]*execute.Execute, error)
	Repair(ctx context.Context, who execute.Instance, from execute.State, moves []execute.Move) (execute.Applied, error)
	ClassesDue(ctx context.Context, until time.Time) ([]string, error)
	Adopt(ctx context.Context) error
	MarkPaused(ctx context.Context) error
	Abandoned(ctx context.Context) ([]int64, error)
	Lose(ctx context.Context, instance int64, why string) ([]execute.LostRun, error)
	CleanHistory(ctx context.Context, now time.Time) (int, error)
	DeriveJobStates(ctx context.Context, since time.Time) error
}

const (
	page        = 500              // rows of one repair transaction
	passTimeout = 60 * time.Second // for one pass of the handler
	lookBack    = time.Minute      // how long a change by hand may take to be committed and still be noticed
)

// NodeDied is the message of a run that is LOST.
const NodeDied = "its node died or left before it finished"

// Config is what a Handler needs to know.
type Config struct {
	Interval     time.Duration // between passes
	MisfireAfter time.Duration // how late a fire must be to be a misfire
	NodeTimeout  time.Duration // how old the heartbeat of a dead node is
	BeatEvery    time.Duration // between heartbeats
	Log          zerolog.Logger

	// Unhandled is told of classes that have misfires.
	Unhandled func(class string)

	// Skipped is told of fires put on record as SKIPPED, and Lost of runs put on record as LOST. They must not block;
	// nil tells nobody.
	Skipped func([]execute.SkippedFire)
	Lost    func([]execute.LostRun)
}

// Handler is the ClusterMisfireHandler.
type Handler struct {
	apps     Apps
	nodes    Nodes
	executes Executes
	cfg      Config
}

// New returns a handler.
func New(apps Apps, nodes Nodes, executes Executes, cfg Config) *Handler {
	if cfg.Skipped == nil {
		cfg.Skipped = func([]execute.SkippedFire) {}
	}
	if cfg.Lost == nil {
		cfg.Lost = func([]execute.LostRun) {}
	}
	return &Handler{apps: apps, nodes: nodes, executes: executes, cfg: cfg}
}

// Run comes by every interval until ctx is done. An outage of the database is logged once and waited out.
func (h *Handler) Run(ctx context.Context) {
	outage.Every(ctx, h.cfg.Log, "misfire handling", h.cfg.Interval, h.comeBy)
}

// comeBy does the work if it is this node's turn. Otherwise another node has just done it, and nothing is written.
func (h *Handler) comeBy(ctx context.Context) error {
	turn, err := h.apps.Enter(ctx, h.nodes.Now(), h.cfg.Interval)
	if err != nil || !turn.Mine {
		return err
	}
	return h.pass(ctx, turn.Previous)
}

// Pass does the work once, whoever's turn it is: at start-up, before the first poll.
func (h *Handler) Pass(ctx context.Context) error {
	turn, err := h.apps.Enter(ctx, h.nodes.Now(), h.cfg.Interval)
	if err != nil {
		return err
	}
	return h.pass(ctx, turn.Previous)
}

func (h *Handler) pass(ctx context.Context, previous time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	if err := h.nodes.SyncSwitches(ctx); err != nil {
		return err
	}
	if err := h.failOver(ctx); err != nil {
		return err
	}
	view, err := h.nodes.View(ctx)
	if err != nil {
		return err
	}
	if err := h.repair(ctx, view); err != nil {
		return err
	}
	if err := h.executes.DeriveJobStates(ctx, previous.Add(-lookBack)); err != nil {
		return err
	}
	return h.cleanHistory(ctx)
}

// failOver declares nodes dead whose heartbeat is too old, and puts runs on record as LOST that no node holds
// any more. A node that has itself been cut off, or has just started, waits: after an outage of the database
// every heartbeat is old.
func (h *Handler) failOver(ctx context.Context) error {
	if h.nodes.ConnectedFor() >= 2*h.cfg.BeatEvery {
		dead, err := h.nodes.Bury(ctx, h.nodes.Now().Add(-h.cfg.NodeTimeout))
		for _, n := range dead {
			h.cfg.Log.Warn().Str("node", n.HostIP).Time("heartbeat", n.Heartbeat).Msg("declared dead")
		}
		if err != nil {
			return err
		}
	}
	abandoned, err := h.executes.Abandoned(ctx)
	if err != nil {
		return err
	}
	for _, instance := range abandoned {
		lost, err := h.executes.Lose(ctx, instance, NodeDied)
		h.cfg.Lost(lost)
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			h.cfg.Log.Warn().Int64("instance", instance).Int("runs", len(lost)).Msg("runs lost with their node")
		}
	}
	return nil
}

// cleanHistory deletes the runs that their jobs keep no longer.
func (h *Handler) cleanHistory(ctx context.Context) error {
	n, err := h.executes.CleanHistory(ctx, h.nodes.Now())
	if n > 0 {
		h.cfg.Log.Debug().Int("runs", n).Msg("cleaned history")
	}
	return err
}

// repair mends the executes that the poller leaves alone.
func (h *Handler) repair(ctx context.Context, view node.View) error {
	steps := []struct {
		name string
		do   func(context.Context, node.View) error
	}{
		{"adopt", func(ctx context.Context, _ node.View) error { return h.executes.Adopt(ctx) }},
		{"mark paused", func(ctx context.Context, _ node.View) error { return h.executes.MarkPaused(ctx) }},
		{"begin", h.begin},
		{"apply misfire policies", h.applyPolicies},
		{"move on what is off", h.moveOnOff},
		{"move on what is paused", h.moveOnPaused},
		{"heal", h.heal},
		{"report", h.report},
	}
	for _, step := range steps {
		if err := step.do(ctx, view); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// begin gives new executes their first fire, in case no poller has.
func (h *Handler) begin(ctx context.Context, view node.View) error {
	return h.eachPage(ctx, execute.Executing,
		func() ([]*execute.Execute, error) { return h.executes.New(ctx, view.ClassesHandled(), page) },
		func(e *execute.Execute) execute.Move { return e.Begin(h.nodes.Now()) })
}

// applyPolicies decides on the misfires of every class that some node may claim.
func (h *Handler) applyPolicies(ctx context.Context, view node.View) error {
	now := h.nodes.Now() // one for all pages: a fast schedule must not come round again before the last page
	return h.eachPage(ctx, execute.Executing,
		func() ([]*execute.Execute, error) {
			return h.executes.Overdue(ctx, execute.Executing, view.ClassesClaimed(), epoch, now.Add(-h.cfg.MisfireAfter), page)
		},
		func(e *execute.Execute) execute.Move {
			if e.Next.Before(e.ResumedAt) {
				return e.Resume(e.ResumedAt)
			}
			return e.Repair(now)
		})
}

// moveOnOff moves on, without running, what nobody may claim because its app, or every node with its class, is
// switched off. The time spent off is not a misfire; what was due before, and was not claimed in time, is one. What has
// become due since the view was read is left alone: it may all be on again.
func (h *Handler) moveOnOff(ctx context.Context, view node.View) error {
	off, now := view.ClassesOff(), view.At
	return h.eachPage(ctx, execute.Executing,
		func() ([]*execute.Execute, error) {
			return h.executes.Overdue(ctx, execute.Executing, off, epoch, now, page)
		},
		func(e *execute.Execute) execute.Move {
			if since := view.OffSince(e.Class); e.Next.Before(since) {
				return e.Repair(since.Add(-time.Millisecond))
			}
			return e.Resume(now.Add(time.Millisecond))
		})
}

// moveOnPaused does the same for paused executes, of whatever class.
func (h *Handler) moveOnPaused(ctx context.Context, _ node.View) error {
	now := h.nodes.Now()
	return h.eachPage(ctx, execute.Paused,
		func() ([]*execute.Execute, error) { return h.executes.PausedOverdue(ctx, now, page) },
		func(e *execute.Execute) execute.Move { return e.Resume(now.Add(time.Millisecond)) })
}

var epoch = time.UnixMilli(1)

// eachPage moves what read returns, page by page, until it returns nothing. What somebody else moved
// meanwhile is gone from the next page; a page of which nothing could be moved is left to the next pass.
func (h *Handler) eachPage(ctx context.Context, from execute.State, read func() ([]*execute.Execute, error), move func(*execute.Execute) execute.Move) error {
	for {
		rows, err := read()
		if err != nil || len(rows) == 0 {
			return err
		}
		moves := make([]execute.Move, len(rows))
		for i, e := range rows {
			if e.Problem != nil {
				h.cfg.Log.Warn().Err(e.Problem).Msg("set to ERROR: its schedule cannot be used")
				moves[i] = e.Break()
			} else {
				moves[i] = move(e)
			}
		}
		done, err := h.executes.Repair(ctx, h.nodes.Self(), from, moves)
		h.cfg.Skipped(done.Skipped)
		if err != nil || len(done.Moved) == 0 {
			return err
		}
	}
}

// heal brings back executes in ERROR whose schedule somebody has corrected.
func (h *Handler) heal(ctx context.Context, _ node.View) error {
	for after := int64(0); ; {
		rows, err := h.executes.Broken(ctx, after, page)
		if err != nil || len(rows) == 0 {
			return err
		}
		after = rows[len(rows)-1].ID
		var moves []execute.Move
		for _, e := range rows {
			if e.Problem == nil {
				h.cfg.Log.Info().Int64("execute", e.ID).Msg("schedule corrected; active again")
				moves = append(moves, e.Heal(h.nodes.Now()))
			}
		}
		if _, err := h.executes.Repair(ctx, h.nodes.Self(), execute.Error, moves); err != nil {
			return err
		}
	}
}

// report names the classes that have misfires all the same: they stay as they are.
func (h *Handler) report(ctx context.Context, _ node.View) error {
	due, err := h.executes.ClassesDue(ctx, h.nodes.Now().Add(-h.cfg.MisfireAfter))
	for _, class := range due {
		h.cfg.Unhandled(class)
	}
	return err
}
