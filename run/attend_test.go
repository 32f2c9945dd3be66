package run

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewsOfARunThatHasEndedChangeNothing(t *testing.T) {
	f := newTables(t)
	who, other := f.Join("n1"), f.Join("n2")
	runs := f.claim(who, 1, f.AddMany(2)...).Runs
	_, err := f.store.Complete(t.Context(), []Result{{Run: runs[0], State: Succeeded, Started: at(1), Finished: at(2), Message: "done", Progress: 100}})
	require.NoError(t, err)
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`, runs[1].ID)
	asked := []int64{runs[0].ID, runs[1].ID}
	theirs := runs[1]
	theirs.Instance = other.ID
	attended, err := f.store.Attend(t.Context(), []Underway{{Run: runs[0], Started: at(1), Progress: 50, Message: "halfway"}, {Run: theirs, Started: at(1), Progress: 70, Message: "not mine"}}, asked)
	require.NoError(t, err)
	require.Equal(t, asked[1:], attended.Cancel)
	require.Equal(t, "done", f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE PROGRESS = 100`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS IS NULL AND MESSAGE IS NULL`))
	_, err = f.store.Attend(t.Context(), []Underway{{Run: runs[1], Started: at(1), Progress: 70, Message: "mine"}}, nil)
	require.NoError(t, err)
	require.Equal(t, at(1).UnixMilli(), f.Count(`SELECT STARTED_AT FROM QRTZ_RUN WHERE STATE = 'RUNNING' AND PROGRESS = 70 AND MESSAGE = 'mine'`))
}

func TestNewsOfALockedRunAreLeft(t *testing.T) {
	f := newTables(t)
	f.Exec(`ALTER TABLE QRTZ_RUN MODIFY MESSAGE TEXT CHARACTER SET latin1`)
	runs := f.claim(f.Join("n1"), 1, f.AddMany(60)...).Runs
	var news []Underway
	var asked []int64
	for i, r := range runs {
		news, asked = append(news, Underway{Run: r, Started: at(1), Progress: i, Message: "going"}), append(asked, r.ID)
	}
	news[5].Message = "going \U0001F600"
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE ID = ?`, asked[8])
	end := f.Holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID = ?`, asked[3])
	defer end()
	done, err := f.store.Attend(t.Context(), news, asked)
	require.NoError(t, err)
	require.Equal(t, Attended{Cancel: asked[8:9], Unsaid: asked[3:4], Refused: 1}, done)
	require.Equal(t, int64(59), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STARTED_AT IS NOT NULL AND PROGRESS IS NOT NULL`))
	require.Equal(t, int64(58), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'going'`))
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'going ?'`))
}
