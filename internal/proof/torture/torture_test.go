package main

import (
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestTheSameSeedMakesTheSamePlan(t *testing.T) {
	outline := func(seed uint64) (text []string) {
		for _, f := range plan(seed, 10*time.Minute, atDefaults, "") {
			text = append(text, fmt.Sprint(f.at, f.kind.name, f.last, f.dice.Uint64()))
		}
		return text
	}
	first := outline(7)
	require.Equal(t, first, outline(7))
	require.NotEqual(t, first, outline(8))
	require.Greater(t, len(first), 100)
}

func TestEveryFaultIsOverInTime(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range plan(7, time.Hour, inHaste, "") {
		require.LessOrEqual(t, f.at+f.last, time.Hour)
		seen[f.kind.name] = true
	}
	require.Len(t, seen, len(kindsCalled(""))+1, "and the upgrade")
	require.ErrorContains(t, run(t.Context(), []string{"--only", "frieze"}, io.Discard), `--only "frieze": no kind of fault is called so; want a part of one of: kill, freeze`)
}

func TestRecordsAreReadOnAsTheyGrow(t *testing.T) {
	dir := t.TempDir()
	add := func(text string) {
		f, err := os.OpenFile(filepath.Join(dir, "a-n1-2.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(text)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	r := newRecords(dir)
	add(`{"Start":1,"At":1000,"Run":5,"Execute":3,"Fire":1,"Attempt":1}` + "\n" + `{"Start":2,"At"`)
	all, err := r.update()
	require.NoError(t, err)
	require.Len(t, all, 1, "half a line is none")
	require.False(t, all[0].ended)
	add(`:2000,"Run":6}` + "\n" + `{"Start":1,"End":true,"Ok":true,"At":3000}` + "\n")
	all, err = r.update()
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.True(t, all[0].ended && all[0].ok)
	require.Equal(t, []string{"a", "n1", "a-n1-2"}, []string{all[1].app, all[1].node, all[1].life})
}

func row(id int64, state string, claimed time.Time) runRow {
	r := runRow{ID: id, App: "a", Execute: 1, Fire: t0.UnixMilli(), State: state}
	r.Node = sql.NullString{String: "n1", Valid: true}
	r.ClaimedAt = sql.NullInt64{Int64: claimed.UnixMilli(), Valid: true}
	return r
}

func whats(found []finding) (kinds []string) {
	for _, f := range found {
		kinds = append(kinds, f.what)
	}
	return kinds
}

func TestAClaimByWhoIsOff(t *testing.T) {
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	off := &switchOff{app: "a", node: "n1", from: at(100), until: at(200)}
	for claimed, wrong := range map[int]bool{99: false, 100: false, 101: true, 150: true, 199: false, 250: false} {
		assert.Equal(t, wrong, off.forbids(row(1, "RUNNING", at(claimed))), claimed)
	}
	other := row(1, "RUNNING", at(150))
	other.Node.String = "n2"
	assert.False(t, off.forbids(other))
	off.node = ""
	assert.True(t, off.forbids(other))
	j := &judge{t: &torture{}, switches: []*switchOff{off}}
	assert.Equal(t, []string{"claim after a switch"}, whats(j.afterSwitch([]runRow{other, row(2, "SKIPPED", at(150))})))
}

func TestARunThatHasEndedStaysAsItIs(t *testing.T) {
	j := &judge{ended: map[int64]runRow{}}
	require.Empty(t, j.changedAfterEnd([]runRow{row(1, "RUNNING", t0), row(2, "LOST", t0)}))
	require.Empty(t, j.changedAfterEnd([]runRow{row(1, "SUCCEEDED", t0), row(2, "LOST", t0)}))
	require.Len(t, j.changedAfterEnd([]runRow{row(1, "RUNNING", t0), row(2, "SUCCEEDED", t0)}), 2)
}

func TestWhatHandlersSayIsCompared(t *testing.T) {
	told := func(run int64, start int64, ok bool) *account {
		return &account{entry: entry{Run: run, Start: start, Execute: 1, Attempt: 1}, ended: true, ok: ok}
	}
	byRun := map[int64][]*account{1: {told(1, 1, true)}, 2: {told(2, 2, false)}, 3: {told(3, 3, true), told(3, 4, true)}, 0: {told(0, 5, true), told(0, 6, true)}}
	require.Empty(t, contradicted([]runRow{row(1, "SUCCEEDED", t0), row(2, "FAILED", t0), row(1, "LOST", t0)}, byRun))
	require.Len(t, contradicted([]runRow{row(2, "SUCCEEDED", t0), row(1, "FAILED", t0), row(1, "CANCELLED", t0), row(9, "SUCCEEDED", t0)}, byRun), 4)
	require.Equal(t, []string{"double"}, whats(twice(byRun)), "a run without a row has no id")
}

func TestAHandlerThatGoesOnAfterItsRunWasLost(t *testing.T) {
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	told := func(ended int) *account {
		return &account{entry: entry{Run: 1, At: t0.UnixMicro()}, ended: true, endedAt: at(ended)}
	}
	never := func(*account) time.Time { return time.Time{} }
	lost := row(1, "LOST", t0)
	lost.FinishedAt = sql.NullInt64{Int64: at(1000).UnixMilli(), Valid: true}
	look := func(a *account, thawed func(*account) time.Time) []string {
		return whats(outlived([]runRow{lost}, map[int64][]*account{1: {a}}, thawed, &serverClock{}))
	}
	require.Empty(t, look(told(1400), never), "it takes a while")
	require.Equal(t, []string{"outlived"}, look(told(1600), never))
	require.Empty(t, look(told(5400), func(*account) time.Time { return at(5000) }), "it stood still")
	deaf := told(9000)
	deaf.Class = stubborn
	require.Empty(t, look(deaf, never))
}

func TestAnInstanceThatLostItsRowMayClaimNoMore(t *testing.T) {
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	by := func(instance int64, claimed time.Time) runRow {
		r := row(1, "RUNNING", claimed)
		r.Instance = sql.NullInt64{Int64: instance, Valid: true}
		return r
	}
	var in instances
	in.see(at(0), map[int64]bool{0: true, 7: true, 8: true})
	in.see(at(1000), map[int64]bool{8: true, 9: true})
	in.see(at(2000), map[int64]bool{8: true}) // of another server, that is behind
	in.see(at(3000), map[int64]bool{7: true, 8: true, 9: true})
	assert.Equal(t, at(2000), in.goneSince(7), "what is gone stays so")
	assert.Zero(t, in.goneSince(8))
	assert.Zero(t, in.goneSince(9))
	assert.Empty(t, in.fenced([]runRow{by(7, at(2000)), by(8, at(9000)), row(1, "SKIPPED", at(9000))}, &serverClock{}))
	assert.Equal(t, []string{"claim when fenced"}, whats(in.fenced([]runRow{by(7, at(2001))}, &serverClock{})))
}

func TestARunThatIsNeitherStartedNorHandedBack(t *testing.T) {
	by := func(id, instance int64, state string, second int) runRow {
		r := row(id, state, t0.Add(time.Duration(second)*time.Second))
		r.Instance = sql.NullInt64{Int64: instance, Valid: true}
		return r
	}
	rows := []runRow{by(1, 7, "LOST", 0), by(2, 7, "RUNNING", 0), by(3, 7, "LOST", 0), by(4, 8, "LOST", 0), by(5, 8, "SUCCEEDED", 60)}
	byRun := map[int64][]*account{3: {{}}, 5: {{}}}
	for second := range stranding {
		rows = append(rows, by(int64(10+second), 7, "SUCCEEDED", second+1))
	}
	assert.Equal(t, []string{"stranded", "stranded"}, whats(stranded(rows, byRun)), "3 was started, and 8 may have stood still")
	assert.Empty(t, stranded(rows[:len(rows)-1], byRun))
}

func TestOrderAndFences(t *testing.T) {
	at := func(ms int64) int64 { return t0.UnixMicro() + ms*1000 }
	told := func(run, fire, started, fence int64) *account {
		return &account{entry: entry{Run: run, Start: started, Execute: 1, Fire: t0.UnixMilli() + fire, Attempt: 1, Fence: fence, At: at(started)}, life: "a-n1-1"}
	}
	rows := []runRow{row(1, "RUNNING", t0), row(2, "RUNNING", t0.Add(time.Second)), row(3, "RUNNING", t0.Add(-time.Second))}
	require.Empty(t, outOfOrder(rows, []*account{told(1, 10, 100, 1), told(2, 20, 200, 2)}))
	require.Empty(t, outOfOrder(rows, []*account{told(1, 10, 420, 1), told(2, 20, 200, 1)}), "two that start at once")
	require.Equal(t, []string{"order"}, whats(outOfOrder(rows, []*account{told(1, 10, 500, 1), told(2, 20, 200, 2)})))
	require.Empty(t, outOfOrder(rows, []*account{told(1, 10, 500, 2), told(3, 20, 200, 1)}), "handed back and claimed again")
	require.Empty(t, outOfOrder(rows, []*account{told(1, -1500, 500, 1), told(2, 20, 200, 2)}), "claimed so late that it was handed back before")
	require.Equal(t, []string{"fence"}, whats(outOfOrder(rows, []*account{told(1, 10, 100, 2), told(2, 20, 200, 1)})))
}

func TestTheTimelineAroundATime(t *testing.T) {
	l := newTimeline(io.Discard)
	l.note("one")
	require.Contains(t, l.around(time.Now(), time.Minute, time.Minute), "one")
	require.Empty(t, l.around(time.Now().Add(time.Hour), time.Minute, time.Minute))
}

// A server that dies right after its clock was told to step has stepped, or has not: that cannot be said until it answers.
func TestAStepThatNobodyHasSeen(t *testing.T) {
	c := &serverClock{file: filepath.Join(t.TempDir(), "clock")}
	c.see(t0, 0)
	require.NoError(t, c.step(13*time.Second))
	now := time.Now()
	require.Equal(t, now.Add(13*time.Second), c.atMost(now))
	require.Equal(t, now, c.atLeast(now))
	c.see(now, 13*time.Second)
	later := now.Add(time.Minute)
	require.WithinDuration(t, later.Add(13*time.Second), c.atLeast(later), time.Second)
}
