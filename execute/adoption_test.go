package execute

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPauseIsMarkedAndItsEndIsKnown(t *testing.T) {
	f := newTables(t)
	id := f.Add()
	require.Zero(t, f.read(id).ResumedAt)
	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED'`)
	changed := f.Text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE`)
	require.NoError(t, f.store.MarkPaused(t.Context()))
	require.Equal(t, changed, f.Text(`SELECT CAST(CHANGED_AT AS CHAR) FROM QRTZ_EXECUTE WHERE PAUSED_AT = CAST(UNIX_TIMESTAMP(CHANGED_AT) * 1000 AS SIGNED)`))
	require.Zero(t, f.read(id).ResumedAt, "it still is")
	moved, err := f.store.Move(t.Context(), f.Join("n1"), Paused, []Move{f.read(id).MoveTo(at(5))})
	require.NoError(t, err)
	require.Len(t, moved.Moved, 1)
	require.Equal(t, int64(1), f.Count(`SELECT PAUSED_AT IS NOT NULL FROM QRTZ_EXECUTE`), "moving it on while paused forgets no pause")

	f.Exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING'`)
	e := f.read(id)
	require.Equal(t, f.Count(`SELECT CAST(UNIX_TIMESTAMP(CHANGED_AT) * 1000 AS SIGNED) FROM QRTZ_EXECUTE`), e.ResumedAt.UnixMilli())
	resumed, err := f.store.Move(t.Context(), f.Join("n1"), Executing, []Move{e.MoveTo(at(7))})
	require.NoError(t, err)
	require.Zero(t, resumed.Moved[0].ResumedAt)
	require.Zero(t, f.read(id).ResumedAt, "only once")
}

func TestAdopt(t *testing.T) {
	f := newTables(t)
	ours, theirs := f.Add(), f.Add()
	f.Exec(`INSERT INTO QRTZ_JOB (ID, APPLICATION, JOB_CLASS) VALUES (77, 'b', 'tick')`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET APPLICATION = NULL, PID = IF(ID = ?, 77, PID)`, theirs)
	require.NoError(t, f.store.Adopt(t.Context()))
	require.Equal(t, ours, f.Count(`SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION = 'a'`))
	require.Equal(t, theirs, f.Count(`SELECT ID FROM QRTZ_EXECUTE WHERE APPLICATION IS NULL`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_EXECUTE WHERE APPLICATION = 'a' AND CHANGED_AT > '2025-01-01'`), "so that a sweep sees it")
}
