package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Nothing that a pass of the misfire handler does looks at another app's rows, however many there are.
func TestAPassLooksAtItsOwnApp(t *testing.T) {
	f := newTables(t)
	f.AddOtherApp(30_000)
	f.finished(f.Job, 10, Succeeded, noon.UnixMilli())
	f.Exec(`ANALYZE TABLE QRTZ_JOB, QRTZ_EXECUTE, QRTZ_RUN`)
	db, read, scanned := f.Counting()
	f.store = newStore(db)
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"stuck runs": func() error { _, err := f.store.StuckRuns(ctx, noon); return err },
		"keys":       func() error { return f.store.FreeOverlapKeys(ctx) },
		"abandoned":  func() error { _, err := f.store.Abandoned(ctx); return err },
		"clean":      func() error { _, _, err := f.store.CleanHistory(ctx, noon); return err },
	} {
		before, scannedBefore := read(), scanned()
		require.NoError(t, do(), name)
		require.Less(t, read()-before, int64(1500), name)
		require.Less(t, scanned()-scannedBefore, int64(5000), name)
	}
}
