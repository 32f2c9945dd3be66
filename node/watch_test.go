package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// observer is a watch of one node, "n", with a heartbeat every 5 s, that looks every 5 s. What the database's clock and the node's
// heartbeat say is up to the test.
type observer struct {
	watch
	monotonic, database time.Time
	node                Node
}

func observe(age time.Duration) *observer {
	o := &observer{watch: watch{every: 5 * time.Second, timeout: 22500 * time.Millisecond}, monotonic: time.Now(), database: noon}
	o.node = live("n", "c")
	o.node.pulse, o.node.Heartbeat = pulse{1, true}, noon.Add(-age)
	return o
}

// looks looks after a while and returns what is seen: whether the node is alive, may be an owner, and is dead for certain.
func (o *observer) looks(after time.Duration) (alive, owns, dead bool) {
	o.monotonic, o.database = o.monotonic.Add(after), o.database.Add(after)
	nodes := []Node{o.node}
	o.look(o.monotonic, o.database, nodes)
	v := View{AppOn: true, timeout: o.timeout, fresh: o.every * 3 / 2}
	return v.alive(&nodes[0]), v.eligible(&nodes[0], "c"), v.dead(&nodes[0])
}

func (o *observer) beats() {
	o.node.pulse.count++
	o.node.Heartbeat = o.database
}

func TestFirstSight(t *testing.T) {
	for name, c := range map[string]struct {
		age         time.Duration
		alive, owns bool
	}{
		"just now":                      {0, true, true},
		"one beat ago":                  {5 * time.Second, true, true},
		"a beat is missing":             {8 * time.Second, true, false},
		"long ago":                      {time.Hour, false, false},
		"slightly in the future":        {-time.Second, true, true},
		"in the future":                 {-time.Hour, false, false},
		"never":                         {noon.Sub(time.Time{}), false, false},
		"at the end of time, or before": {-1 << 63, false, false},
	} {
		o := observe(c.age)
		alive, owns, dead := o.looks(0)
		assert.Equal(t, [3]bool{c.alive, c.owns, false}, [3]bool{alive, owns, dead}, name)
		o.beats()
		alive, owns, dead = o.looks(5 * time.Second)
		assert.Equal(t, [3]bool{true, true, false}, [3]bool{alive, owns, dead}, "%s, and then it beats", name)
	}
}

func TestSilence(t *testing.T) {
	o := observe(0)
	o.looks(0)
	want := [][3]bool{ // alive, owner, dead
		{true, true, false}, {true, false, false}, {true, false, false}, {true, false, false}, {false, false, true}, {false, false, true},
	}
	for i, w := range want {
		alive, owns, dead := o.looks(5 * time.Second)
		got := [3]bool{alive, owns, dead}
		assert.Equal(t, w, got, "after %d s", 5*(i+1))
	}
	o.beats()
	alive, owns, dead := o.looks(5 * time.Second)
	assert.Equal(t, [3]bool{true, true, false}, [3]bool{alive, owns, dead}, "it beats again")
}

// The database's clock is set, forward or back, by a little or by much: no node that beats is taken for dead, nor loses what it owns.
func TestStepsOfTheDatabasesClockDoNotMatter(t *testing.T) {
	for _, step := range []time.Duration{-24 * time.Hour, -3 * time.Second, 3 * time.Second, time.Minute, 24 * time.Hour} {
		o := observe(0)
		o.looks(0)
		for i := range 10 {
			if i == 5 {
				o.database = o.database.Add(step)
			}
			o.beats()
			alive, owns, dead := o.looks(5 * time.Second)
			assert.Equal(t, [3]bool{true, true, false}, [3]bool{alive, owns, dead}, "%s, look %d", step, i)
		}
		o = observe(0)
		o.looks(0)
		o.database = o.database.Add(step)
		for range 5 {
			o.looks(5 * time.Second)
		}
		_, _, dead := o.looks(0)
		assert.True(t, dead, "%s: a dead one is found all the same", step)
	}
}

func TestAWatcherThatWasCutOffBeginsAgain(t *testing.T) {
	o := observe(0)
	o.looks(0)
	for range 4 {
		o.looks(5 * time.Second)
	}
	alive, owns, dead := o.looks(time.Hour)
	assert.Equal(t, [3]bool{true, false, false}, [3]bool{alive, owns, dead})
	for range 4 {
		_, _, dead = o.looks(5 * time.Second)
		assert.False(t, dead)
	}
	_, _, dead = o.looks(5 * time.Second)
	assert.True(t, dead)
}

// A node of the release before has no row in QRTZ_HEARTBEAT: what changes is HEARTBEAT_AT.
func TestANodeOfTheReleaseBefore(t *testing.T) {
	o := observe(0)
	o.node.pulse = pulse{count: noon.UnixMilli()}
	o.looks(0)
	for range 10 {
		o.node.pulse.count += 5000
		alive, owns, dead := o.looks(5 * time.Second)
		assert.Equal(t, [3]bool{true, true, false}, [3]bool{alive, owns, dead})
	}
	for range 5 {
		o.looks(5 * time.Second)
	}
	_, _, dead := o.looks(0)
	assert.True(t, dead)
}

// A node that buries another deletes its heartbeat first. Should its row be locked then, it is no less silent.
func TestALostHeartbeatIsNoSignOfLife(t *testing.T) {
	o := observe(0)
	o.looks(0)
	for range 4 {
		o.looks(5 * time.Second)
	}
	o.node.pulse = pulse{count: noon.UnixMilli()}
	_, _, dead := o.looks(5 * time.Second)
	assert.True(t, dead)
}
