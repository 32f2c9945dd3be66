package run

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/node"
)

// limited adds a job of which only most runs may go at a time, and n executes of it that fire every second.
func (f *tables) limited(overlap string, most, n int) (job int64, executes []int64) {
	f.T.Helper()
	job, first := f.AddExclusive(overlap, 2)
	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = ? WHERE ID = ?`, most, job)
	executes = []int64{first}
	for range n - 1 {
		executes = append(executes, f.AddTo(job))
	}
	f.Exec(`UPDATE QRTZ_EXECUTE SET START_TIME = ?, NEXT_FIRE_TIME = ? WHERE PID = ?`, past.UnixMilli(), past.UnixMilli(), job)
	return job, executes
}

// slots are the slots that are taken.
func (f *tables) slots() []int64 {
	return f.IDs(`SELECT OVERLAP_SLOT FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL ORDER BY OVERLAP_SLOT`)
}

func TestWhatIsBeyondMaxRunningStaysPending(t *testing.T) {
	f := newTables(t)
	_, executes := f.limited("ALLOW", 3, 5)
	f.Exec(`UPDATE QRTZ_JOB SET HISTORY = 'NONE'`) // its runs have a row all the same while they go
	who, other := f.Join("n1"), f.Join("n2")
	won := f.claim(who, 1, executes...)
	require.Len(t, won.Runs, 3, "several of a job in one claim")
	require.Empty(t, won.Skipped)
	require.Equal(t, []int64{0, 1, 2}, f.slots())
	require.Len(t, f.PendingIDs(), 2)
	require.Empty(t, f.pending(f.PendingIDs()...), "no node need try")
	require.Empty(t, f.claim(other, 1, executes[0]).Runs, "another node neither")

	line := f.IDs(`SELECT ID FROM QRTZ_RUN WHERE STATE = 'PENDING' ORDER BY AVAILABLE_AT, ID`)
	f.succeed(won.Runs[1:]...)
	require.Empty(t, f.claim(who, 1, executes[1]).Runs, "a new fire does not overtake those that are pending")
	runs := f.claimPending(other, f.PendingIDs()...)
	require.Len(t, runs, 2)
	require.ElementsMatch(t, line[:2], []int64{runs[0].ID, runs[1].ID}, "the first in line")
	require.Equal(t, []int64{0, 1, 2}, f.slots())
}

func TestOverlapRulesApplyWhenAllSlotsAreTaken(t *testing.T) {
	f := newTables(t)
	_, skip := f.limited("SKIP", 2, 3)
	who := f.Join("n1")
	won := f.claim(who, 1, skip...)
	require.Len(t, won.Runs, 2)
	require.Len(t, won.Skipped, 1)
	require.Equal(t, int64(1), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE MESSAGE = 'overlap: 2 other runs of the job were going (OVERLAP is SKIP, MAX_RUNNING)'`))
	f.succeed(won.Runs[0])
	require.Len(t, f.claim(who, 1, skip[0]).Runs, 1)

	_, queue := f.limited("QUEUE", 2, 6)
	won = f.claim(who, 1, queue...)
	require.Len(t, won.Runs, 2)
	require.Len(t, won.Skipped, 2, "the queue keeps two")
	require.Len(t, f.PendingIDs(), 2)
}

func TestPendingRunsOfALimitedJobHideNoOthers(t *testing.T) {
	f := newTables(t)
	who := f.Join("n1")
	for range 10 {
		f.AddPending()
	}
	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = 4 WHERE ID = ?`, f.Job)
	job := f.AddJob("tick")
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, FIRE_TIME, AVAILABLE_AT) VALUES ('a', ?, ?, ?)`, job, noon.UnixMilli(), noon.UnixMilli())
	found, err := f.store.Pending(t.Context(), []string{"tick"}, at(10), 5)
	require.NoError(t, err)
	require.Len(t, found, 5)
	require.Equal(t, job, found[4].JobID)
	require.Len(t, f.claimPending(who, f.PendingIDs()...), 5)
	require.Equal(t, []int64{0, 1, 2, 3}, f.slots())
	f.Exec(`UPDATE QRTZ_RUN SET CANCEL_AT = 1 WHERE STATE = 'PENDING'`)
	require.Len(t, f.pending(f.PendingIDs()...), 6, "what is to be ended needs no slot")
}

// Two nodes that read the same free slots start one run each all the same: the key decides.
func TestOfTwoNodesWithTheSameSlotOneStartsItsRun(t *testing.T) {
	f := newTables(t)
	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = 2 WHERE ID = ?`, f.Job)
	a, b := f.AddPending(), f.AddPending()
	runs := f.pending(a, b)
	require.Len(t, runs, 2)
	runs[0].slot, runs[1].slot = 1, 1
	first, err := f.store.ClaimPending(t.Context(), f.Join("n1"), runs[:1])
	require.NoError(t, err)
	require.Len(t, first.Runs, 1)
	second, err := f.store.ClaimPending(t.Context(), f.Join("n2"), runs[1:])
	require.NoError(t, err)
	require.Empty(t, second.Runs)
	require.Len(t, f.claimPending(f.Join("n2"), b), 1, "there is another slot")
}

func TestFewerSlotsAreReachedAsRunsEnd(t *testing.T) {
	for _, overlap := range []string{"ALLOW", "QUEUE"} {
		t.Run(overlap, func(t *testing.T) {
			f := newTables(t)
			job, executes := f.limited(overlap, 3, 5)
			who := f.Join("n1")
			won := f.claim(who, 1, executes...)
			require.Len(t, won.Runs, 3)
			for _, most := range []int{2, 1} {
				f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = ? WHERE ID = ?`, most, job)
				first := slices.IndexFunc(won.Runs, func(r Run) bool {
					return f.Count(`SELECT OVERLAP_SLOT FROM QRTZ_RUN WHERE ID = ?`, r.ID) == 0
				})
				f.succeed(won.Runs[max(first, 0)]) // so that slot 0 is free as long as it can be
				won.Runs = slices.Delete(won.Runs, max(first, 0), max(first, 0)+1)
				require.Empty(t, f.claim(who, 1, executes[0]).Runs)
				require.Empty(t, f.claimPending(who, f.PendingIDs()...))
			}
			f.succeed(won.Runs...)
			require.Len(t, f.claimPending(who, f.PendingIDs()...), 1)
		})
	}
}

// Of a job with one slot, a run in a slot from the time when it had more takes it.
func TestTheOnlySlotIsTakenByWhicheverRunGoes(t *testing.T) {
	f := newTables(t)
	job, executes := f.limited("SKIP", 2, 2)
	who := f.Join("n1")
	won := f.claim(who, 1, executes...)
	require.Len(t, won.Runs, 2)
	f.Exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = 0 WHERE ID = ?`, job)
	f.succeed(slices.DeleteFunc(slices.Clone(won.Runs), func(r Run) bool {
		return f.Count(`SELECT OVERLAP_SLOT FROM QRTZ_RUN WHERE ID = ?`, r.ID) != 0
	})...)
	require.Equal(t, []int64{1}, f.slots())
	require.Len(t, f.claim(who, 1, executes[0]).Skipped, 1)
}

// Nodes that race for one slot take another one: with so many free, none of their runs is left.
func TestARunThatLosesItsSlotTriesAnother(t *testing.T) {
	f := newTables(t)
	const nodes, rounds = 8, 10
	var who [nodes]node.Instance
	for i := range who {
		who[i] = f.JoinAnother()
	}
	options := Defaults()
	options.Overlap, options.MaxRunning = OverlapSkip, 2*nodes
	for range rounds {
		var race sync.WaitGroup
		for i := range nodes {
			one := Run{ID: f.AddPending(), JobID: f.Job, Class: "tick", Options: options}
			race.Go(func() {
				done, err := f.store.StartExclusive(context.Background(), who[i], []Run{one})
				assert.NoError(t, err)
				assert.Empty(t, done.Skipped)
			})
		}
		race.Wait()
		require.Equal(t, int64(nodes), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE STATE = 'RUNNING'`))
		f.Exec(`UPDATE QRTZ_RUN SET STATE = 'SUCCEEDED', OVERLAP_KEY = NULL WHERE STATE = 'RUNNING'`)
	}
}

func TestFreeSlotsAreCounted(t *testing.T) {
	taken := func(slots ...int) map[int]bool {
		m := map[int]bool{}
		for _, s := range slots {
			m[s] = true
		}
		return m
	}
	for _, c := range []struct {
		n, limit int
		taken    map[int]bool
		want     []int
	}{
		{1, 9, nil, []int{0}},
		{1, 9, taken(0), nil},
		{4, 9, taken(1, 3), []int{0, 2}},
		{2, 9, taken(4), []int{0}}, // 1 is left out: both would make three
		{2, 9, taken(1, 4), nil},
		{2, 9, taken(4, 5, 6), nil},
		{3, 0, nil, nil},
	} {
		for range 20 {
			free := freeOf(c.n, c.taken, c.limit)
			slices.Sort(free)
			require.Equal(t, c.want, free, "%+v", c)
		}
	}
	require.Len(t, freeOf(10000, taken(7), 5), 5)
	first := map[int]bool{}
	for range 100 {
		first[freeOf(10, nil, 1)[0]] = true
	}
	require.Greater(t, len(first), 5, "nodes that ask at once do not all try the same")
}

// A page of keys may end within the slots of a job.
func TestSlotsOfRunsEndedBySQLAreFreed(t *testing.T) {
	f := newTables(t)
	const n = keyPage + 500
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, OVERLAP_KEY, OVERLAP_SLOT)
		SELECT 'a', 1, 'SUCCEEDED', 1, S.seq FROM (WITH RECURSIVE N AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM N WHERE seq < 999) SELECT seq FROM N) S`)
	f.Exec(`INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, STATE, OVERLAP_KEY, OVERLAP_SLOT)
		SELECT 'a', 1, 'SUCCEEDED', 1, OVERLAP_SLOT + 1000 FROM QRTZ_RUN WHERE OVERLAP_SLOT < 500`)
	require.Equal(t, int64(n), f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY = 1`))
	require.NoError(t, f.store.FreeOverlapKeys(t.Context()))
	require.Zero(t, f.Count(`SELECT COUNT(*) FROM QRTZ_RUN WHERE OVERLAP_KEY IS NOT NULL`))
}
