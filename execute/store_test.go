package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing that a pass of the misfire handler does looks at another app's rows, however many there are.
func TestAPassLooksAtItsOwnApp(t *testing.T) {
	f := newTables(t)
	f.AddOtherApp(30_000)
	f.AddMany(10)
	f.Exec(`ANALYZE TABLE QRTZ_JOB, QRTZ_EXECUTE, QRTZ_RUN`)
	db, read, scanned := f.Counting()
	f.store = newStore(db)
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"adopt":       func() error { return f.store.Adopt(ctx) },
		"mark paused": func() error { return f.store.MarkPaused(ctx) },
		"new":         func() error { _, err := f.store.New(ctx, []string{"tick"}, 500); return err },
		"broken":      func() error { _, err := f.store.Broken(ctx, 0, 500); return err },
		"overdue": func() error {
			_, err := f.store.OverdueAfter(ctx, Executing, []string{"tick"}, Cursor{}, noon, 500)
			return err
		},
		"paused":         func() error { _, err := f.store.PausedAfter(ctx, Cursor{}, noon, 500); return err },
		"stuck executes": func() error { _, err := f.store.StuckExecutes(ctx, noon); return err },
		"derive":         func() error { _, err := f.store.DeriveJobStates(ctx); return err },
	} {
		before, scannedBefore := read(), scanned()
		require.NoError(t, do(), name)
		require.Less(t, read()-before, int64(1500), name)
		require.Less(t, scanned()-scannedBefore, int64(5000), name)
	}
}
