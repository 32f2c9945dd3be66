package poller

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
)

// doubts are what this process has to give back: claims whose COMMIT got no answer, and runs that it claimed and will not
// start. If the former did commit, their runs are on record as this instance's though nothing has started them. All
// are handed back as soon as the database answers.
type doubts struct {
	resolving sync.Mutex // one at a time

	mu   sync.Mutex
	open []*doubt
}

// doubt is one claim, or one run.
type doubt struct {
	who     node.Instance
	claims  []execute.Move
	pending []run.PendingRun
	runs    []run.Run
}

func (d *doubts) fires(who node.Instance, claims []execute.Move) {
	if len(claims) > 0 {
		d.add(&doubt{who: who, claims: claims})
	}
}

func (d *doubts) pending(who node.Instance, runs []run.PendingRun) {
	if len(runs) > 0 {
		d.add(&doubt{who: who, pending: runs})
	}
}

func (d *doubts) unstarted(r run.Run) { d.add(&doubt{runs: []run.Run{r}}) }

func (d *doubts) add(o *doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, o)
}

// take returns what is open, runs to be handed back together.
func (d *doubts) take() []*doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := &doubt{}
	open := slices.DeleteFunc(d.open, func(o *doubt) bool {
		all.runs = append(all.runs, o.runs...)
		return o.runs != nil
	})
	d.open = nil
	if len(all.runs) > 0 {
		open = append(open, all)
	}
	return open
}

// resolve hands back what is open, and returns the executes whose claims were in doubt: what was read of them before is
// no longer true. It should be done before the same fires are claimed again, which makes it impossible to tell
// whether one that leaves no row was won before.
func (d *doubts) resolve(ctx context.Context, stores stores) (executes []int64, err error) {
	d.resolving.Lock()
	defer d.resolving.Unlock()
	open := d.take()
	for i, o := range open {
		for _, m := range o.claims {
			executes = append(executes, m.Execute.ID)
		}
		left, err := o.resolve(ctx, stores)
		if left != nil {
			d.add(left)
		}
		if err != nil {
			for _, o := range open[i+1:] {
				d.add(o)
			}
			return executes, err
		}
	}
	return executes, nil
}

// resolve returns what is left to be done: all of it after an error, else what another transaction has locked.
func (d *doubt) resolve(ctx context.Context, stores stores) (left *doubt, err error) {
	left = &doubt{who: d.who}
	switch {
	case len(d.claims) > 0:
		left.claims, err = stores.HandBackFires(ctx, d.who, d.claims)
	case len(d.pending) > 0:
		left.pending, err = stores.HandBackPending(ctx, d.who, d.pending)
	default:
		left.runs, err = handBackRuns(ctx, stores, d.runs)
	}
	if len(left.claims)+len(left.pending)+len(left.runs) == 0 {
		left = nil
	}
	return left, err
}

// handBackRuns gives up runs. Those without a row (HistoryNone) get one; that is tried only once, since others may have
// carried them out, and deleted their rows, before it is tried again.
func handBackRuns(ctx context.Context, store Runs, runs []run.Run) (again []run.Run, err error) {
	var rowless, rows []run.Run
	for _, r := range runs {
		if r.ID == 0 {
			rowless = append(rowless, r)
		} else {
			rows = append(rows, r)
		}
	}
	if len(rowless) > 0 {
		if err := store.LeaveForOthers(ctx, rowless); err != nil {
			return rows, fmt.Errorf("%d runs without history may be lost: %w", len(rowless), err)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return store.HandBack(ctx, rows)
}

// count is how many runs and claims are open.
func (d *doubts) count() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range d.open {
		n += len(o.claims) + len(o.pending) + len(o.runs)
	}
	return n
}
