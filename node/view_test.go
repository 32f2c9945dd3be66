package node

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var noon = time.UnixMilli(1_700_000_000_000)

// cluster is a view at noon of nodes that are on, alive and handle the class "c", as node me sees it.
func cluster(me int, nodes ...Node) View {
	v := View{At: noon, AppOn: true, timeout: 22500 * time.Millisecond, fresh: 7500 * time.Millisecond, Nodes: nodes}
	v.Me = nodes[me]
	return v
}

func live(id string, classes ...string) Node {
	return Node{HostIP: id, On: true, Instance: 1, silent: time.Second, Classes: classes, seed: seedOf(id)}
}

func five() []Node {
	var nodes []Node
	for i := range 5 {
		nodes = append(nodes, live(fmt.Sprintf("10.0.0.%d", i+1), "c"))
	}
	return nodes
}

// ranks is what each of the nodes takes for its own rank.
func ranks(nodes []Node, id int64) []int {
	var all []int
	for me := range nodes {
		v := cluster(me, nodes...)
		all = append(all, v.Rank("c", id))
	}
	return all
}

func owner(nodes []Node, id int64) string {
	for i, r := range ranks(nodes, id) {
		if r == 0 {
			return nodes[i].HostIP
		}
	}
	return ""
}

func TestNodesAgreeOnTheirRanks(t *testing.T) {
	nodes := five()
	for id := range int64(1000) {
		require.ElementsMatch(t, []int{0, 1, 2, 3, 4}, ranks(nodes, id-500), "id %d", id-500)
	}
}

func TestOwnersAreBalanced(t *testing.T) {
	for name, nodes := range map[string][]Node{
		"addresses": five(),
		"one host":  {live("10.1.2.3", "c"), live("10.1.2.3#2", "c"), live("10.1.2.3#3", "c"), live("10.1.2.3#4", "c"), live("10.1.2.3#5", "c")},
		"pods":      {live("web-0", "c"), live("web-1", "c"), live("web-2", "c"), live("web-3", "c"), live("web-4", "c")},
	} {
		const many = 10_000
		owned := map[string]int{}
		for id := range int64(many) {
			owned[owner(nodes, id+1)]++
		}
		for _, n := range nodes {
			assert.InEpsilon(t, many/len(nodes), owned[n.HostIP], 0.1, "%s of %s", n.HostIP, name)
		}
	}
}

func TestOnlyTheLostNodesIDsMove(t *testing.T) {
	before := five()
	lost := before[2].HostIP
	for _, lose := range []func(*Node){
		func(n *Node) { n.Instance = 0 },
		func(n *Node) { n.On = false },
		func(n *Node) { n.silent = 8 * time.Second }, // one beat missed, long before it is dead
		func(n *Node) { n.OffSince = noon },
		func(n *Node) { n.Classes = []string{"d"} },
	} {
		after := five()
		lose(&after[2])
		heirs := map[string]int{}
		for id := range int64(2000) {
			was, is := owner(before, id), ownerAmong(after, 2, id)
			if was == lost {
				heirs[is]++
			} else {
				require.Equal(t, was, is, "id %d", id)
			}
		}
		assert.Len(t, heirs, 4, "its ids are spread over all who are left")
	}
}

// ownerAmong leaves out a node that does not ask any more.
func ownerAmong(nodes []Node, without int, id int64) string {
	for i, r := range ranks(nodes, id) {
		if r == 0 && i != without {
			return nodes[i].HostIP
		}
	}
	return ""
}

func TestRankLooksAtTheClass(t *testing.T) {
	v := cluster(0, live("a", "mine"), live("b", "other"), live("c", "other"))
	for id := range int64(100) {
		assert.Zero(t, v.Rank("mine", id))
	}
}

func TestMayOwnTellsByTheIDAlone(t *testing.T) {
	for i := range 5 {
		v := cluster(i, five()...)
		mayOwn := v.MayOwn()
		for id := range int64(1000) {
			require.Equal(t, v.Rank("c", id) == 0, mayOwn(id), "among equals it is certain")
		}
	}
	mixed := cluster(0, live("a", "c", "d"), live("b", "c", "d", "e"), live("c", "c"), live("d", "d"))
	mayOwn, owned := mixed.MayOwn(), 0
	for id := range int64(1000) {
		if mixed.Rank("c", id) == 0 || mixed.Rank("d", id) == 0 {
			require.True(t, mayOwn(id))
		}
		if mayOwn(id) {
			owned++
		}
	}
	assert.InDelta(t, 500, owned, 50, "what b has goes before is left out, what c or d has may not be")
	alone := cluster(0, live("a", "c", "d"), live("b", "c"))
	assert.Nil(t, alone.MayOwn())
}

func TestAlone(t *testing.T) {
	other := live("b", "another class")
	v := cluster(0, live("a", "c"), other)
	assert.False(t, v.Alone())
	other.On = false
	dead := live("c", "c")
	dead.watched = time.Hour
	v = cluster(0, live("a", "c"), other, dead)
	assert.True(t, v.Alone())
}

func TestClaiming(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*View)
		want   bool
	}{
		"all is well": {func(*View) {}, true},
		"app off":     {func(v *View) { v.AppOn = false }, false},
		"node off":    {func(v *View) { v.Me.On = false }, false},
		"resuming":    {func(v *View) { v.Me.OffSince = noon }, false},
		"row lost":    {func(v *View) { v.Me = Node{} }, false},
		"just alive":  {func(v *View) { v.Me.watched = v.timeout }, true},
		"silent":      {func(v *View) { v.Me.watched = v.timeout + 1 }, false},
		"doubted":     {func(v *View) { v.Me.doubted = true }, false},
	} {
		v := cluster(0, live("a", "c"))
		c.change(&v)
		assert.Equal(t, c.want, v.Claiming(), name)
	}
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
	resuming := live("resuming", "both")
	resuming.OffSince, resuming.OffSeenAt, resuming.SwitchedAt = at(-6), at(-3), at(-2)
	unnoticed := live("unnoticed", "theirs too")
	unnoticed.SwitchedAt = at(-2) // off and on again
	v := cluster(0, live("me", "both", "mine", "shared", "theirs", "theirs too"), dead, resuming, unnoticed, switched("off", at(-7), "shared"))
	me := &v.Nodes[0]
	passes := func(class string) (spans [][2]time.Time) {
		v.Me = *me
		for _, off := range v.PassesOver(class) {
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
	assert.Equal(t, spans{{at(-6), at(-2)}}, passes("both"), "and here after that, too, though it has not resumed")
	assert.Empty(t, passes("theirs too"))
	assert.Empty(t, passes("theirs"), "it is dead, but nobody has switched it off: what it did not run is late")

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
	assert.Equal(t, []TimeOff{{at(-60), at(-50), at(-10)}}, v.PassesOver("mine"))
	v.Nodes[1].AppOffSince, v.Nodes[1].AppOffSeenAt = at(-55), at(-15)
	assert.Equal(t, []TimeOff{{at(-60), at(-50), at(-10)}}, v.PassesOver("mine"), "that is another time off")
	v.Nodes[1].AppOffSince = at(-60)
	assert.Equal(t, []TimeOff{{at(-60), at(-10), at(-10)}}, v.PassesOver("mine"), "another node has seen it all along")
	v.Nodes[1].AppOffSeenAt = at(-18)
	assert.Equal(t, []TimeOff{{at(-60), at(-18), at(-10)}}, v.PassesOver("mine"), "not until shortly before")
	v.Nodes[1].AppOffSince, v.Nodes[0].AppOffSeenAt, v.Me.AppOffSeenAt = time.Time{}, time.Time{}, time.Time{}
	assert.Equal(t, []TimeOff{{at(-60), at(-60), at(-10)}}, v.PassesOver("mine"), "noted by a program that does not say")

	me = live("me", "both", "mine")
	me.OffSince, me.OffSeenAt, me.SwitchedAt = at(-60), at(-40), at(-20)
	v = cluster(0, me, switched("other", at(-50), "both"))
	assert.Equal(t, []TimeOff{{at(-60), at(-40), at(-20)}}, v.PassesOver("mine"))
	assert.Equal(t, []TimeOff{{at(-50), at(-40), at(-20)}}, v.PassesOver("both"), "the other one is off")
	v.Nodes[1].SwitchedAt = at(-30)
	assert.Equal(t, []TimeOff{{at(-30), at(-30), at(-20)}}, v.PassesOver("both"))
}

func TestResuming(t *testing.T) {
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
		assert.Equal(t, c.want, v.Resuming(), name)
	}
}

func TestClasses(t *testing.T) {
	off, dead, resuming := live("off", "a", "shared"), live("dead", "dead"), live("resuming", "resuming")
	off.On, resuming.OffSince = false, noon
	dead.watched = time.Hour
	v := cluster(0, live("me", "mine", "shared"), off, dead, resuming, live("other", "b", "shared"))

	assert.Equal(t, []string{"b", "mine", "shared"}, v.ClassesClaimed())
	assert.Equal(t, []string{"a", "b", "mine", "resuming", "shared"}, v.ClassesHandled())
	assert.Equal(t, []string{"a"}, v.ClassesOff())
	for class, handled := range map[string]bool{"a": true, "b": true, "mine": true, "dead": false, "nobody's": false} {
		assert.Equal(t, handled, v.Handles(class), class)
	}

	v.AppOn = false
	assert.Empty(t, v.ClassesClaimed())
	assert.Equal(t, []string{"a", "b", "dead", "mine", "resuming", "shared"}, v.ClassesOff())
}
