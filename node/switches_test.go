package node

import (
	"testing"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/schema"
)

const (
	stopApp  = `UPDATE QRTZ_APP SET STATE = 'N' WHERE APPLICATION = 'a'`
	startApp = `UPDATE QRTZ_APP SET STATE = 'Y' WHERE APPLICATION = 'a'`
)

func syncAll(t *testing.T, db *sqlx.DB) {
	t.Helper()
	s := NewStore(db, schema.DefaultPrefix, "a")
	v, err := s.Read(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.SyncSwitches(t.Context(), &v))
}

func sync3(t *testing.T, db *sqlx.DB) (states [3]string) {
	t.Helper()
	syncAll(t, db)
	for i, id := range []string{"one", "two", "three"} {
		r := readRow(t, db, id)
		states[i] = r.State
		if r.ByApp {
			states[i] += " by app"
		}
	}
	return states
}

func TestSyncSwitches(t *testing.T) {
	db := newDB(t)
	for _, id := range []string{"one", "two", "three"} {
		joined(t, db, id)
	}
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'three'`)
	assert.Equal(t, [3]string{"Y", "Y", "N"}, sync3(t, db), "an app that is on touches nothing")

	run(t, db, stopApp)
	off := [3]string{"N by app", "N by app", "N"}
	assert.Equal(t, off, sync3(t, db))
	assert.Equal(t, off, sync3(t, db), "twice is once")

	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y' WHERE HOST_IP = 'two'`)
	assert.Equal(t, off, sync3(t, db), "a node is not on while its app is off")

	run(t, db, startApp)
	assert.Equal(t, [3]string{"Y", "Y", "N"}, sync3(t, db), "an operator's stop stays")

	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y' WHERE HOST_IP = 'three'`)
	assert.Equal(t, [3]string{"Y", "Y", "Y"}, sync3(t, db))
}

// An operator starts a node by SQL that the app's stop has marked. A later stop of that node is the
// operator's: the mark must not start it again.
func TestAMarkIsForgotten(t *testing.T) {
	db := newDB(t)
	for _, id := range []string{"one", "two", "three"} {
		joined(t, db, id)
	}
	run(t, db, stopApp)
	sync3(t, db)
	run(t, db, startApp)
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y' WHERE HOST_IP = 'one'`)
	assert.Equal(t, [3]string{"Y", "Y", "Y"}, sync3(t, db))
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N' WHERE HOST_IP = 'one'`)
	assert.Equal(t, [3]string{"N", "Y", "Y"}, sync3(t, db))
}

func TestOtherAppsAreLeftAlone(t *testing.T) {
	db := newDB(t)
	run(t, db, `INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES ('b', 'Y')`)
	joined(t, db, "one")
	run(t, db, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK) VALUES ('b', 'x', '', 'Y', 0)`)
	run(t, db, stopApp)
	syncAll(t, db)
	var state string
	require.NoError(t, db.GetContext(t.Context(), &state, `SELECT STATE FROM QRTZ_NODE WHERE APPLICATION = 'b'`))
	assert.Equal(t, "Y", state)
}

func TestANodePassesOverBeforeItClaims(t *testing.T) {
	for name, c := range map[string]struct{ off, on string }{
		"node": {`UPDATE QRTZ_NODE SET STATE = 'N'`, `UPDATE QRTZ_NODE SET STATE = 'Y'`},
		"app":  {stopApp, startApp},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			m, _ := joined(t, db, "n")
			v := m.View()
			require.True(t, v.Claiming())

			run(t, db, c.off)
			v = refreshed(t, m)
			assert.False(t, v.Claiming())
			assert.WithinDuration(t, v.At, later(v.Me.OffSince, v.Me.AppOffSince), time.Second)
			assert.Equal(t, name == "node", v.Me.AppOffSince.IsZero())
			assert.Equal(t, name == "app", v.Me.OffSince.IsZero())
			assert.False(t, v.PassingOver(), "it is off")
			assert.Equal(t, "N", readRow(t, db, "n").State, "people read there that it is off, at once")
			noted := readRow(t, db, "n").OffSince
			require.True(t, noted.Valid)
			refreshed(t, m)
			assert.Equal(t, noted, readRow(t, db, "n").OffSince, "noted once")

			var before int64
			require.NoError(t, db.GetContext(t.Context(), &before, `SELECT `+schema.NowMillisSQL))
			run(t, db, c.on)
			v = refreshed(t, m)
			assert.False(t, v.Claiming(), "not yet: what was due meanwhile is to be passed over first")
			assert.True(t, v.PassingOver())
			for _, off := range v.TimesOff("tick") {
				assert.True(t, off.From.Before(off.Until))
				assert.Equal(t, off.Until, off.Seen, "it was seen off a moment before")
				assert.GreaterOrEqual(t, off.Until.UnixMilli(), before, "fires count from the switch on")
				assert.False(t, off.Until.After(v.At))
			}
			assert.Equal(t, "Y", readRow(t, db, "n").State)

			require.NoError(t, m.PassedOver(t.Context()))
			v = m.View()
			assert.True(t, v.Claiming())
			assert.False(t, v.PassingOver())
			assert.False(t, readRow(t, db, "n").OffSince.Valid)
		})
	}
}

func TestANodeThatIsStillOffDoesNotPassOver(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	refreshed(t, m)
	run(t, db, `UPDATE QRTZ_NODE SET OFF_SINCE = 1700000005000, SWITCHED_AT = FROM_UNIXTIME(5)`)
	require.NoError(t, m.PassedOver(t.Context()))
	assert.Equal(t, int64(1700000005000), readRow(t, db, "n").OffSince.Int64)
	require.NoError(t, m.store.SawOff(t.Context(), "n", m.Self().ID, seenOff{}, seenOff{time.UnixMilli(1700000000007), time.UnixMilli(1700000000008)}))
	assert.Equal(t, int64(1700000005000), readRow(t, db, "n").OffSince.Int64)
}

// A switch that was on for a while, and off again before this node looked: what was due meanwhile is owed.
func TestOffAgainIsNotedAnew(t *testing.T) {
	for name, c := range map[string]struct{ off, again string }{
		"node": {`UPDATE QRTZ_NODE SET STATE = 'N'`, `UPDATE QRTZ_NODE SET SWITCHED_AT = SWITCHED_AT + INTERVAL 2 SECOND`},
		"app":  {stopApp, `UPDATE QRTZ_APP SET SWITCHED_AT = SWITCHED_AT + INTERVAL 2 SECOND`},
	} {
		t.Run(name, func(t *testing.T) {
			db := newDB(t)
			m, _ := joined(t, db, "n")
			run(t, db, c.off)
			refreshed(t, m)
			first := readRow(t, db, "n").OffSince
			require.True(t, first.Valid)
			run(t, db, c.again)
			refreshed(t, m)
			again := readRow(t, db, "n").OffSince
			assert.Equal(t, first.Int64+2000, again.Int64)
			refreshed(t, m)
			assert.Equal(t, again, readRow(t, db, "n").OffSince, "noted once")
		})
	}
}

func TestEachLookNotesWhatIsStillOff(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	first := refreshed(t, m).Me
	assert.True(t, first.AppOffSeenAt.IsZero())
	assert.False(t, first.OffSeenAt.Before(first.OffSince))
	require.NoError(t, m.clock.Measure(t.Context())) // a moment
	run(t, db, stopApp)
	second := refreshed(t, m).Me
	assert.True(t, second.OffSeenAt.After(first.OffSeenAt))
	assert.Equal(t, second.OffSeenAt, second.AppOffSeenAt)

	run(t, db, startApp)
	require.NoError(t, m.Leave(t.Context()))
	again, _ := joined(t, db, "n")
	third := again.View().Me
	assert.Equal(t, second.AppOffSeenAt, third.AppOffSeenAt, "on again, and told by a former process")
	assert.True(t, third.OffSeenAt.After(second.OffSeenAt))

	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y'`)
	require.NoError(t, again.PassedOver(t.Context()))
	done := again.View().Me
	assert.Zero(t, [2]bool{!done.OffSeenAt.IsZero(), !done.AppOffSeenAt.IsZero()})
}

// A node that restarts while it is off must pass over what was due before it claims.
func TestARestartRemembersThatItWasOff(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	refreshed(t, m)
	require.NoError(t, m.Leave(t.Context()))
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y'`)
	again, _ := joined(t, db, "n")
	v := again.View()
	assert.False(t, v.Claiming())
	assert.True(t, v.PassingOver())
}

func TestOurOwnWritesAreNotSwitches(t *testing.T) {
	db := newDB(t)
	m, _ := joined(t, db, "n")
	self := m.Self()
	s := m.store
	ours := func() {
		require.NoError(t, s.Beat(t.Context(), self.ID, 7, time.Minute))
		require.NoError(t, s.Show(t.Context(), self.NodeID, self.ID, time.Minute))
		require.NoError(t, s.SawOff(t.Context(), self.NodeID, self.ID, seenOff{time.Now(), time.Now()}, seenOff{time.Now(), time.Now()}))
		require.NoError(t, s.PassedOver(t.Context(), self.NodeID, self.ID))
		buried, err := s.Bury(t.Context(), &Node{ID: self.NodeID, Instance: self.ID, pulse: pulse{7, true}})
		require.NoError(t, err)
		require.True(t, buried)
		taken, err := s.Take(t.Context(), process{nodeID: "n", hostName: "h"}, 0, self.ID)
		require.NoError(t, err)
		require.True(t, taken)
		require.NoError(t, s.Leave(t.Context(), self.NodeID, self.ID))
		taken, err = s.Take(t.Context(), process{nodeID: "n", hostName: "h"}, 0, self.ID)
		require.NoError(t, err)
		require.True(t, taken)
	}
	ours()
	assert.False(t, readRow(t, db, "n").Switched.Valid, "no person has switched it yet")
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'Y'`)
	stamped := readRow(t, db, "n").Switched
	require.True(t, stamped.Valid)
	ours()
	assert.Equal(t, stamped, readRow(t, db, "n").Switched)
}

func TestSwitchedAtIsReadInAnyTimeZone(t *testing.T) {
	db := newDB(t)
	db.SetMaxOpenConns(1)
	m, _ := joined(t, db, "n")
	run(t, db, `SET SESSION time_zone = '+05:45'`)
	run(t, db, `UPDATE QRTZ_NODE SET STATE = 'N'`)
	run(t, db, stopApp)
	run(t, db, `SET SESSION time_zone = '-09:30'`)
	v, err := m.store.Read(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, v.At, v.Nodes[0].SwitchedAt, time.Second)
	assert.WithinDuration(t, v.At, v.AppSwitchedAt, time.Second)
}

// A row that is locked keeps no other switch from being brought in line.
func TestALockedNodeIsBroughtInLineLater(t *testing.T) {
	dsn := newDSN(t)
	db := open(t, dsn)
	m, _ := joined(t, openEngine(t, dsn), "one")
	for _, id := range []string{"two", "three"} {
		joined(t, db, id)
	}
	operator := locks(t, db, `UPDATE QRTZ_NODE SET VERSION = 'x' WHERE APPLICATION = 'a' AND HOST_IP = 'three'`)
	run(t, db, stopApp)
	began := time.Now()
	require.NoError(t, m.SyncSwitches(t.Context()))
	assert.Less(t, time.Since(began), 4*time.Second)
	assert.Equal(t, []string{"N", "N", "Y"}, []string{readRow(t, db, "one").State, readRow(t, db, "two").State, readRow(t, db, "three").State})
	require.NoError(t, operator.Rollback())
	require.NoError(t, m.SyncSwitches(t.Context()))
	assert.Equal(t, "N", readRow(t, db, "three").State)
}

// The database's clock was set back since a switch was thrown: fires of the future are not passed over.
func TestASwitchInTheFutureEndsNow(t *testing.T) {
	me := live("me", "c")
	me.OffSince, me.OffSeenAt, me.SwitchedAt = at(-9), at(3590), at(3600)
	v := cluster(0, me)
	assert.Equal(t, []TimeOff{{at(-9), at(0), at(0)}}, v.TimesOff("c"))
	me = live("me", "c")
	me.AppOffSince, me.AppOffSeenAt = at(-9), at(3590)
	v = cluster(0, me)
	v.AppSwitchedAt = at(3600)
	assert.Equal(t, []TimeOff{{at(-9), at(0), at(0)}}, v.TimesOff("c"))
}

// switched is a node whose own switch was set to N at a time.
func switched(name string, at time.Time, classes ...string) Node {
	n := live(name, classes...)
	n.On, n.SwitchedAt = false, at
	return n
}

func at(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }

func TestOffSinceTheLastSwitchThatWasStillOn(t *testing.T) {
	v := cluster(0, switched("me", at(-9), "a"), switched("has not seen it", at(-7), "a"), live("other", "b"))
	v.Nodes[0].OffSince = at(-9)
	assert.Equal(t, at(-7), v.OffSince("a"))
	v.Nodes[1].OffSince = at(-8) // and has been on since, unseen
	assert.Equal(t, at(-7), v.OffSince("a"))

	v.AppOn, v.AppSwitchedAt = false, at(-20)
	assert.Equal(t, at(-20), v.OffSince("b"))
	assert.Equal(t, at(-20), v.OffSince("a"))
	v.AppSwitchedAt = at(-1)
	assert.Equal(t, at(-7), v.OffSince("a"), "the nodes were first")
	v.AppSwitchedAt = time.Time{}
	assert.Equal(t, time.UnixMilli(1), v.OffSince("b"), "never on")
}

func TestWhatANodePassesOverWhenItIsOnAgain(t *testing.T) {
	dead := live("dead", "theirs")
	dead.Instance = 0
	onAgain := live("passing over", "both")
	onAgain.OffSince, onAgain.OffSeenAt, onAgain.SwitchedAt = at(-6), at(-3), at(-2)
	unnoticed := live("unnoticed", "theirs too")
	unnoticed.SwitchedAt = at(-2) // off and on again
	v := cluster(0, live("me", "both", "mine", "shared", "theirs", "theirs too"), dead, onAgain, unnoticed, switched("off", at(-7), "shared"))
	me := &v.Nodes[0]
	passes := func(class string) (spans [][2]time.Time) {
		v.Me = *me
		for _, off := range v.TimesOff(class) {
			require.Equal(t, off.Until, off.Seen)
			spans = append(spans, [2]time.Time{off.From, off.Until})
		}
		return spans
	}
	assert.Empty(t, passes("mine"))
	me.OffSince, me.OffSeenAt, me.SwitchedAt = at(-9), at(-2), at(-1)
	type spans = [][2]time.Time
	assert.Equal(t, spans{{at(-9), at(-1)}}, passes("mine"))
	assert.Equal(t, spans{{at(-7), at(-1)}}, passes("shared"), "before that the other one was on")
	assert.Equal(t, spans{{at(-6), at(-2)}}, passes("both"), "and here after that, too, though it has not passed over")
	assert.Empty(t, passes("theirs too"))
	assert.Empty(t, passes("theirs"), "it is dead, but not switched off: what it did not run is late")

	me.AppOffSince, me.AppOffSeenAt, v.AppSwitchedAt = at(-8), at(-4), at(-3)
	assert.Equal(t, spans{{at(-8), at(-3)}}, passes("theirs"), "only while the app was off")
	assert.Equal(t, spans{{at(-9), at(-1)}, {at(-8), at(-3)}}, passes("mine"))
	me.OffSince = time.Time{}
	assert.Equal(t, spans{{at(-8), at(-3)}}, passes("mine"))
}

// A switch keeps only the last time it was thrown. What a node did not see off for longer than it goes without looking may
// have been on.
func TestWhatNobodySawOffMayHaveBeenOn(t *testing.T) {
	me, other := live("me", "both", "mine"), live("other", "both")
	me.AppOffSince, me.AppOffSeenAt = at(-60), at(-50)
	v := cluster(0, me, other)
	v.AppSwitchedAt = at(-10)
	assert.Equal(t, []TimeOff{{at(-60), at(-50), at(-10)}}, v.TimesOff("mine"))
	v.Nodes[1].AppOffSince, v.Nodes[1].AppOffSeenAt = at(-55), at(-15)
	assert.Equal(t, []TimeOff{{at(-60), at(-50), at(-10)}}, v.TimesOff("mine"), "that is another time off")
	v.Nodes[1].AppOffSince = at(-60)
	assert.Equal(t, []TimeOff{{at(-60), at(-10), at(-10)}}, v.TimesOff("mine"), "another node has seen it all along")
	v.Nodes[1].AppOffSeenAt = at(-18)
	assert.Equal(t, []TimeOff{{at(-60), at(-18), at(-10)}}, v.TimesOff("mine"), "not until shortly before")
	v.Nodes[1].AppOffSince, v.Nodes[0].AppOffSeenAt, v.Me.AppOffSeenAt = time.Time{}, time.Time{}, time.Time{}
	assert.Equal(t, []TimeOff{{at(-60), at(-60), at(-10)}}, v.TimesOff("mine"), "noted by a program that does not say")

	me = live("me", "both", "mine")
	me.OffSince, me.OffSeenAt, me.SwitchedAt = at(-60), at(-40), at(-20)
	v = cluster(0, me, switched("other", at(-50), "both"))
	assert.Equal(t, []TimeOff{{at(-60), at(-40), at(-20)}}, v.TimesOff("mine"))
	assert.Equal(t, []TimeOff{{at(-50), at(-40), at(-20)}}, v.TimesOff("both"), "the other one is off")
	v.Nodes[1].SwitchedAt = at(-30)
	assert.Equal(t, []TimeOff{{at(-30), at(-30), at(-20)}}, v.TimesOff("both"))
}

func TestPassingOver(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*View)
		want   bool
	}{
		"never off":     {func(*View) {}, false},
		"was off":       {func(v *View) { v.Me.OffSince = noon }, true},
		"app was off":   {func(v *View) { v.Me.AppOffSince = noon }, true},
		"still off":     {func(v *View) { v.Me.OffSince, v.Me.On = noon, false }, false},
		"app still off": {func(v *View) { v.Me.AppOffSince, v.AppOn = noon, false }, false},
	} {
		v := cluster(0, live("a"))
		c.change(&v)
		assert.Equal(t, c.want, v.PassingOver(), name)
	}
}

// An operator who stops a node that its app has stopped takes it from the app's hands.
func TestSwitchedByAnOperator(t *testing.T) {
	db := newDB(t)
	for _, id := range []string{"one", "two", "three"} {
		joined(t, db, id)
	}
	s := NewStore(db, schema.DefaultPrefix, "a")
	flip := func(s *Store, id string, on bool) (was bool, err error) {
		err = schema.InTx(t.Context(), db, func(tx *sqlx.Tx) (err error) {
			was, err = s.Switch(t.Context(), tx, id, on)
			return err
		})
		return was, err
	}
	run(t, db, stopApp)
	assert.Equal(t, [3]string{"N by app", "N by app", "N by app"}, sync3(t, db))
	was, err := flip(s, "two", false)
	require.NoError(t, err)
	assert.False(t, was)
	run(t, db, startApp)
	assert.Equal(t, [3]string{"Y", "N", "Y"}, sync3(t, db))
	was, err = flip(s, "two", true)
	require.NoError(t, err)
	assert.False(t, was)
	assert.Equal(t, [3]string{"Y", "Y", "Y"}, sync3(t, db))
	was, err = flip(s, "one", false)
	require.NoError(t, err)
	assert.True(t, was)
	assert.Equal(t, [3]string{"N", "Y", "Y"}, sync3(t, db), "and stays so")
	_, err = flip(s, "four", true)
	assert.ErrorContains(t, err, `switch node "four"`)
	_, err = flip(NewStore(db, schema.DefaultPrefix, "b"), "one", true)
	assert.Error(t, err, "of another app")
}
