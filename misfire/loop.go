package misfire

import (
	"context"
	"fmt"
	"time"

	"github.com/qrtz-go/qrtz/app"
)

// Run does a pass at once, and then tries to do one every interval until ctx is done. Failures are logged once per outage and
// waited out.
// The next pass takes up what a pass leaves undone after a pause of a third of the interval, so that the database has time for others.
func (h *Handler) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for work := h.firstPass; ; work = h.tryPass {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		entered, err := work(ctx)
		if ctx.Err() != nil {
			return // and so is the error
		}
		pause := h.pacer.Next(err, h.cfg.Interval-time.Since(began))
		if h.unfinished && entered {
			pause = h.cfg.Interval / 3
		}
		timer.Reset(max(0, pause))
	}
}

// firstPass is done whichever node has advanced the lock-time window.
func (h *Handler) firstPass(ctx context.Context) (entered bool, err error) {
	h.unfinished = true
	return h.tryPass(ctx)
}

// tryPass does a pass if this node advances the lock-time window, or if its last pass left work undone. Otherwise another
// node has just done one, and nothing is written. It tells whether it got as far as that; the error is of what comes before.
func (h *Handler) tryPass(ctx context.Context) (entered bool, err error) {
	window, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	if !window.Mine && !h.unfinished {
		return true, nil
	}
	if p := h.passUntil(ctx, time.Now().Add(h.cfg.Interval/3)); ctx.Err() == nil {
		p.note()
	}
	return true, nil
}

// OnePass does what Run does every interval: a pass if this node advances the lock-time window, or if its last pass left work
// undone. It is for tests.
func (h *Handler) OnePass(ctx context.Context) error {
	window, err := h.enter(ctx)
	if err != nil || !window.Mine && !h.unfinished {
		return err
	}
	return h.passUntil(ctx, time.Now().Add(hardLimit)).problem()
}

// FullPass does all the work there is, whichever node has advanced the lock-time window and however long it takes. It is
// for tests.
func (h *Handler) FullPass(ctx context.Context) error {
	if _, err := h.enter(ctx); err != nil {
		return err
	}
	err := h.passUntil(ctx, time.Now().Add(hardLimit)).problem()
	if err == nil && h.unfinished {
		err = fmt.Errorf("misfire handling: not done after %s", hardLimit)
	}
	return err
}

func (h *Handler) enter(ctx context.Context) (app.Window, error) {
	return h.apps.Enter(ctx, h.nodes.Now(), h.cfg.Interval)
}
