package misfire

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
)

// NoHandler is why rows of a class are stuck that no live node handles.
const NoHandler = node.NoHandler

// findStuck tells of rows that cannot run by themselves. They stay as they are.
func (p *pass) findStuck(ctx context.Context) error {
	stuck, err := p.executes.StuckExecutes(ctx, p.now)
	runs, err2 := p.runs.StuckRuns(ctx, p.now)
	handled := p.view.ClassesHandled()
	stuck = slices.DeleteFunc(append(stuck, runs...), func(rows run.Stuck) bool {
		return rows.Why == "" && slices.Contains(handled, rows.Class)
	})
	for i := range stuck {
		stuck[i].Why = cmp.Or(stuck[i].Why, NoHandler)
	}
	if len(stuck) > 0 {
		p.cfg.Stuck(stuck)
	}
	return errors.Join(err, err2)
}
