package misfire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/node"
)

const (
	hardLimit = 60 * time.Second       // for one pass, should statements hang
	minSlice  = 100 * time.Millisecond // for a step that has more to do
)

// passUntil works until the time given, and tries each step at least once, whatever becomes of the others.
func (h *Handler) passUntil(ctx context.Context, until time.Time) *pass {
	ctx, cancel := context.WithTimeout(ctx, hardLimit)
	defer cancel()
	p := &pass{Handler: h, until: until, failed: map[string]error{}}
	more := p.work(ctx, []step{
		{"sync switches", once(h.nodes.SyncSwitches)},
		{"fail over", once(h.failOver)},
		{"view", once(func(ctx context.Context) (err error) {
			p.view, err = h.nodes.ReadView(ctx)
			return err
		})},
	})
	p.now = h.nodes.Now() // one for all pages: a fast schedule must not come round again before the last page
	var steps []step
	if p.failed["view"] == nil {
		steps = append(steps,
			step{"adopt", once(h.executes.Adopt)},
			step{"mark paused", once(h.executes.MarkPaused)},
			step{"begin", p.begin},
			step{"apply misfire policies", p.applyPolicies},
			step{"move on what is off", p.moveOnOff},
			step{"move on what is paused", p.moveOnPaused},
			step{"heal", p.heal},
			step{"look for what is stuck", once(p.findStuck)})
	}
	steps = append(steps,
		step{"derive job states", h.executes.DeriveJobStates},
		step{"clean history", h.cleanHistory})
	more = p.work(ctx, steps) || more
	h.unfinished = more || len(p.failed) > 0
	return p
}

// step is one kind of work. It does a bounded part of it, and tells whether there is more.
type step struct {
	name string
	do   func(context.Context) (more bool, err error)
}

func once(do func(context.Context) error) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) { return false, do(ctx) }
}

// pass is one pass of the handler.
type pass struct {
	*Handler
	until  time.Time // no step with more to do continues after it
	slice  time.Time // nor the step that is being done after this
	now    time.Time
	view   node.View
	tried  []string // the steps
	failed map[string]error
}

// work does steps in turn, each for its share of what time is left, and those with more to do again and again until
// the time is over. A step that fails is left to the next pass. It tells whether work is left.
func (p *pass) work(ctx context.Context, steps []step) (more bool) {
	for first := true; len(steps) > 0; first = false {
		var again []step
		for i, s := range steps {
			if !first && !time.Now().Before(p.until) {
				return true
			}
			if first {
				p.tried = append(p.tried, s.name)
			}
			p.slice = time.Now().Add(max(time.Until(p.until)/time.Duration(len(steps)-i), minSlice))
			left, err := true, error(nil)
			for left && err == nil && ctx.Err() == nil {
				if left, err = s.do(ctx); p.over() {
					break
				}
			}
			switch {
			case err != nil:
				p.failed[s.name] = err
			case left:
				again = append(again, s)
			}
		}
		if ctx.Err() != nil {
			return true
		}
		steps = again
	}
	return false
}

// over tells whether the step that is being done has used up its time.
func (p *pass) over() bool { return !time.Now().Before(p.slice) }

// problem is what went wrong.
func (p *pass) problem() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(p.failed)) {
		all = append(all, fmt.Errorf("%s: %w", name, p.failed[name]))
	}
	return errors.Join(all...)
}

// note logs, once per outage, which steps failed. Steps that failed for the same reason, as all do while the database is
// away, are one.
func (p *pass) note() {
	said := map[string]bool{}
	for _, name := range p.tried {
		err := p.failed[name]
		if err != nil {
			cause := cause(err).Error()
			if said[cause] {
				continue
			}
			said[cause] = true
		}
		p.pacer.Note(name, err)
	}
}

// cause is the error that others were made of, by adding what failed.
func cause(err error) error {
	for {
		switch inner := err.(type) { //nolint:errorlint // each layer is taken off
		case interface{ Unwrap() error }:
			if inner.Unwrap() == nil {
				return err
			}
			err = inner.Unwrap()
		case interface{ Unwrap() []error }:
			if len(inner.Unwrap()) == 0 {
				return err
			}
			err = inner.Unwrap()[0]
		default:
			return err
		}
	}
}
