package poller

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/schema"
)

// doubts are the claims whose COMMIT got no answer. If they did commit, their runs are on record as this
// instance's though nothing has started them; they are handed back as soon as the database answers.
type doubts struct {
	resolving sync.Mutex // held while handing back, so that none is handed back after it was claimed anew

	mu   sync.Mutex
	open []*doubt
}

type doubt struct {
	who    execute.Instance
	claims []execute.Move
	runIDs []int64
}

func (d *doubts) fires(who execute.Instance, claims []execute.Move, err error) {
	d.add(&doubt{who: who, claims: claims}, err)
}

func (d *doubts) runs(who execute.Instance, ids []int64, err error) {
	d.add(&doubt{who: who, runIDs: ids}, err)
}

func (d *doubts) add(one *doubt, err error) {
	if !errors.Is(err, schema.ErrCommitUnknown) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = append(d.open, one)
}

// resolve hands back what is open. It must be done before the same fires or runs are claimed again: what
// that claim has started would be handed back.
func (d *doubts) resolve(ctx context.Context, store Store) error {
	d.resolving.Lock()
	defer d.resolving.Unlock()
	d.mu.Lock()
	open := slices.Clone(d.open)
	d.mu.Unlock()
	for i, one := range open {
		if err := one.resolve(ctx, store); err != nil {
			return err
		}
		d.mu.Lock()
		d.open = slices.DeleteFunc(d.open, func(o *doubt) bool { return o == open[i] })
		d.mu.Unlock()
	}
	return nil
}

func (d *doubt) resolve(ctx context.Context, store Store) error {
	if len(d.claims) > 0 {
		return store.HandBackFires(ctx, d.who, d.claims)
	}
	return store.HandBack(ctx, d.who, d.runIDs)
}
