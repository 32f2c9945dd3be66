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
	return Node{ID: id, On: true, Instance: 1, silent: time.Second, Classes: classes, seed: seedOf(id)}
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
			return nodes[i].ID
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
			assert.InEpsilon(t, many/len(nodes), owned[n.ID], 0.1, "%s of %s", n.ID, name)
		}
	}
}

func TestOnlyTheLostNodesIDsMove(t *testing.T) {
	before := five()
	lost := before[2].ID
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
			return nodes[i].ID
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

func TestPositions(t *testing.T) {
	place := func(v View) [2]int {
		position, of := v.Position()
		return [2]int{position, of}
	}
	for i := range 5 {
		assert.Equal(t, [2]int{i, 5}, place(cluster(i, five()...)), "each its own")
	}
	assert.Equal(t, [2]int{0, 1}, place(View{}), "one that is not in the cluster")

	for what, lose := range map[string]func(*Node){
		"left":                 func(n *Node) { n.Instance = 0 },
		"off":                  func(n *Node) { n.On = false },
		"silent":               func(n *Node) { n.silent = 8 * time.Second },
		"lacks one of classes": func(n *Node) { n.Classes = []string{"d"} },
	} {
		nodes := five()
		lose(&nodes[1])
		assert.Equal(t, [2]int{1, 4}, place(cluster(2, nodes...)), what)
	}
	more := cluster(0, live("a", "c", "d"), live("b", "c"), live("e", "c", "d", "f"))
	assert.Equal(t, [2]int{0, 2}, place(more), "only who handles all its classes looks in its place")

	off := five()
	off[2].On = false
	assert.Equal(t, [2]int{2, 5}, place(cluster(2, off...)), "one that is off looks for its switch")
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
		"all is well":  {func(*View) {}, true},
		"app off":      {func(v *View) { v.AppOn = false }, false},
		"node off":     {func(v *View) { v.Me.On = false }, false},
		"passing over": {func(v *View) { v.Me.OffSince = noon }, false},
		"row lost":     {func(v *View) { v.Me = Node{} }, false},
		"just alive":   {func(v *View) { v.Me.watched = v.timeout }, true},
		"silent":       {func(v *View) { v.Me.watched = v.timeout + 1 }, false},
		"doubted":      {func(v *View) { v.Me.doubted = true }, false},
	} {
		v := cluster(0, live("a", "c"))
		c.change(&v)
		assert.Equal(t, c.want, v.Claiming(), name)
	}
}

func TestClasses(t *testing.T) {
	off, dead, onAgain := live("off", "a", "shared"), live("dead", "dead"), live("passing over", "passing over")
	off.On, onAgain.OffSince = false, noon
	dead.watched = time.Hour
	v := cluster(0, live("me", "mine", "shared"), off, dead, onAgain, live("other", "b", "shared"))

	assert.Equal(t, []string{"b", "mine", "shared"}, v.ClassesClaimed())
	assert.Equal(t, []string{"a", "b", "mine", "passing over", "shared"}, v.ClassesHandled())
	assert.Equal(t, []string{"a"}, v.ClassesOff())
	for class, handled := range map[string]bool{"a": true, "b": true, "mine": true, "dead": false, "no node's": false} {
		assert.Equal(t, handled, v.Handles(class), class)
	}

	v.AppOn = false
	assert.Empty(t, v.ClassesClaimed())
	assert.Equal(t, []string{"a", "b", "dead", "mine", "passing over", "shared"}, v.ClassesOff())
}
