package run

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/node"
)

func TestRunsOfAnInstanceThatIsGoneAreLost(t *testing.T) {
	f := newTables(t)
	gone, here := f.Join("n1"), f.Join("n2")
	lost := f.claim(gone, 2, f.Add()).Runs
	f.Exec(`UPDATE QRTZ_JOB SET NAME = 'report'`)
	f.Exec(`UPDATE QRTZ_EXECUTE SET NAME = 'daily', JOB_TYPE = 'CRON', CRON = '* * * * * ?', ZONE_ID = 'Asia/Tokyo'`)
	f.Exec(`UPDATE QRTZ_RUN SET STARTED_AT = ? WHERE ID = ?`, at(1).UnixMilli(), lost[0].ID)
	kept := f.claim(here, 1, f.Add()).Runs[0]
	abandoned := func() []int64 {
		ids, err := f.store.Abandoned(t.Context())
		require.NoError(t, err)
		return ids
	}
	require.Empty(t, abandoned())
	f.Join("n1") // the same node, in a new life
	require.Equal(t, []int64{gone.ID}, abandoned())

	gotLost, err := f.store.Lose(t.Context(), gone.ID, "its node died")
	require.NoError(t, err)
	require.Len(t, gotLost, 2)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	first := gotLost[0]
	require.Equal(t, at(0).In(tokyo).String(), first.FireTime.String())
	require.Equal(t, at(1), first.StartedAt)
	require.Equal(t, LostRun{
		ID: lost[0].ID, JobID: f.Job, ExecuteID: sql.NullInt64{Int64: lost[0].ExecuteID, Valid: true}, Class: "tick", Job: "report", Schedule: "daily",
		Zone: sql.NullString{String: "Asia/Tokyo", Valid: true}, Fire: at(0).UnixMilli(), Started: sql.NullInt64{Int64: at(1).UnixMilli(), Valid: true},
		Attempt: 1, Node: "n1", FireTime: first.FireTime, StartedAt: first.StartedAt,
	}, first)
	require.Zero(t, gotLost[1].StartedAt)
	require.Empty(t, abandoned())
	require.Equal(t, "RUNNING", f.RunState(kept.ID))
	require.Equal(t, int64(2), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST' AND MESSAGE = 'its node died' AND FINISHED_AT IS NOT NULL`))
	late, err := f.store.Complete(t.Context(), []Result{{Run: lost[0], State: Succeeded, Started: at(1), Finished: at(2)}})
	require.NoError(t, err)
	require.Equal(t, 1, late.Late, "a result after that changes nothing")
	f.handBack(lost[:1]...)
	require.Equal(t, "LOST", f.RunState(lost[0].ID))
}

func TestARunIsRecoveredFiveTimes(t *testing.T) {
	for name, fires := range map[string]func(*tables, node.Instance) Run{
		"of a schedule": func(f *tables, who node.Instance) Run { return f.claim(who, 1, f.Add()).Runs[0] },
		"asked for": func(f *tables, who node.Instance) Run {
			return f.claimPending(who, f.asked(`{"own":1}`))[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTables(t)
			f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1, HISTORY = 'NONE'`)
			who := f.Join("n1")
			r := fires(f, who)
			for n := 1; ; n++ {
				lost, err := f.store.Lose(t.Context(), who.ID, "its node died")
				require.NoError(t, err)
				require.Len(t, lost, 1)
				ids := f.PendingIDs()
				if n == 6 {
					require.Empty(t, ids)
					break
				}
				require.Len(t, ids, 1)
				who = f.Join("n1")
				next := f.claimPending(who, ids...)[0]
				require.Equal(t, r.ID, next.Recovers)
				require.Equal(t, r.FireTime.UnixMilli(), next.FireTime.UnixMilli(), "the original fire time")
				require.Equal(t, r.Data, next.Data)
				require.Equal(t, r.Attempt+1, next.Attempt)
				require.Greater(t, next.Fence, r.Fence, "a process that still runs it elsewhere can be told")
				r = next
			}
			require.Equal(t, int64(6), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'LOST'`))
		})
	}
}

func TestLosingRunsLeavesNoneBehindForAnother(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	f.Exec(`UPDATE QRTZ_JOB SET RECOVERY = 1`)
	runs := f.claim(who, 1, f.AddMany(60)...).Runs
	f.Exec(`ALTER TABLE QRTZ_RUN ADD CHECK (RECOVERS <> ` + fmt.Sprint(runs[7].ID) + `)`)
	f.Exec(`ALTER TABLE QRTZ_RUN ADD CHECK (NOT (EXECUTE_ID = ` + fmt.Sprint(runs[9].ExecuteID) + ` AND STATE = 'LOST'))`)
	end := f.Holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE ID = ?`, runs[3].ID)
	defer end()
	lost, err := f.store.Lose(t.Context(), who.ID, "its node died")
	require.ErrorContains(t, err, fmt.Sprintf("1 runs of instance %d cannot be put on record", who.ID))
	require.Len(t, lost, 58, "all but the one that is refused and the one that is locked")
	require.Equal(t, int64(57), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'PENDING' AND RECOVERS IS NOT NULL`))
	require.Contains(t, f.Text(`SELECT MESSAGE FROM QRTZ_RUN WHERE ID = ?`, runs[7].ID), "its node died (not recovered, since the server refused it")
	end()
	lost, err = f.store.Lose(t.Context(), who.ID, "its node died")
	require.Error(t, err)
	require.Len(t, lost, 1)
	require.Equal(t, runs[3].ID, lost[0].ID)
	require.Equal(t, "tick", lost[0].Class)
}

// A key that cannot be freed now is freed at the next look, and those of other apps are theirs.
func TestALockedOverlapKeyIsFreedLater(t *testing.T) {
	f := newTables(t)
	for i, app := range []string{"a", "a", "b"} {
		f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, OVERLAP_KEY) VALUES (?, 1, 'SUCCEEDED', ?)`, app, i+1)
	}
	end := f.Holding(`UPDATE QRTZ_RUN SET PROGRESS = 1 WHERE OVERLAP_KEY = 2`)
	defer end()
	require.NoError(t, f.store.FreeOverlapKeys(t.Context()))
	require.Equal(t, []int64{2, 3}, f.IDs(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL ORDER BY 1`))
	end()
	require.NoError(t, f.store.FreeOverlapKeys(t.Context()))
	require.Equal(t, []int64{3}, f.IDs(`SELECT OVERLAP_KEY FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL ORDER BY 1`))
}
