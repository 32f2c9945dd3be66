package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// fault is something that is done to the cluster.
type fault struct {
	at   time.Duration // from the start
	kind kind
	last time.Duration
	dice *rand.Rand // for what else is left to chance
}

// kind is a kind of fault: its name, how often it comes compared to others, and how long it lasts at most.
type kind struct {
	name   string
	weight int
	last   func(pace) time.Duration
	do     func(t *torture, ctx context.Context, f fault) // what it did is undone when it returns, also when ctx ends
}

func atOnce(pace) time.Duration      { return 0 }
func forAway(p pace) time.Duration   { return p.away }
func forFreeze(p pace) time.Duration { return p.freeze }
func forCut(p pace) time.Duration    { return p.cut }
func forOff(p pace) time.Duration    { return p.off }
func forOutage(p pace) time.Duration { return p.outage }

// kinds are what may go wrong, or is done to a cluster in its daily life.
func kinds() []kind {
	return []kind{
		{"kill", 10, forAway, (*torture).kill},
		{"freeze", 8, forFreeze, (*torture).freeze},
		{"restart", 6, forAway, (*torture).restart},
		{"cut", 7, forCut, (*torture).cut},
		{"tear", 9, forCut, (*torture).tear},
		{"lost commit", 6, forCut, (*torture).loseCommits},
		{"slow reads, lost commit", 4, forCut, (*torture).slowReads},
		{"delay", 6, forCut, (*torture).delay},
		{"dead line", 4, forCut, (*torture).deadLine},
		{"freeze inside", 5, forFreeze, (*torture).freezeInside},
		{"dead line inside", 4, forCut, (*torture).deadInside},
		{"open transaction", 5, forFreeze, (*torture).openTransaction},
		{"refused result", 2, atOnce, (*torture).refuseResults},
		{"poison", 5, forOff, (*torture).poisonRow},
		{"small pool", 2, atOnce, (*torture).holdConnections},
		{"step clock", 2, atOnce, (*torture).stepClock},
		{"two namespaces", 2, forOff, (*torture).twoNamespaces},
		{"join", 4, forOff, (*torture).joinAnew},
		{"kill server", 3, forOutage, (*torture).killServer},
		{"app off", 4, forOff, (*torture).switchApp},
		{"unseen switch", 2, forOff, (*torture).switchUnseen},
		{"node off", 7, forOff, (*torture).switchNode},
		{"last node off", 2, forOff, (*torture).switchLastNode},
		{"pause", 6, forOff, (*torture).pause},
		{"declare", 7, atOnce, (*torture).declareSome},
		{"change by SQL", 6, atOnce, (*torture).changeBySQL},
		{"end by SQL", 3, atOnce, (*torture).endBySQL},
		{"break by SQL", 3, forOff, (*torture).breakBySQL},
		{"delete", 4, atOnce, (*torture).deleteOne},
		{"enqueue", 7, atOnce, (*torture).enqueue},
		{"cancel", 4, atOnce, (*torture).cancelSome},
		{"crowd", 3, atOnce, (*torture).crowd},
		{"clean history", 3, atOnce, (*torture).cleanHistory},
	}
}

// kindsCalled are the kinds whose name contains a text.
func kindsCalled(text string) []kind {
	return slices.DeleteFunc(kinds(), func(k kind) bool { return !strings.Contains(k.name, text) })
}

// plan draws the sequence of faults. The same seed, length and pace make the same plan. Some kind must contain only.
func plan(seed uint64, length time.Duration, p pace, only string) []fault {
	dice := rand.New(rand.NewPCG(seed, 1))
	all, total := kindsCalled(only), 0
	for _, k := range all {
		total += k.weight
	}
	var faults []fault
	for at := p.between; at < length; at += time.Duration(dice.ExpFloat64() * float64(p.between)) {
		n, k := dice.IntN(total), 0
		for ; n >= all[k].weight; k++ {
			n -= all[k].weight
		}
		most := all[k].last(p)
		// Most are short, as in life, and some are as long as can be.
		last := time.Duration(float64(most) * dice.Float64() * dice.Float64())
		if dice.IntN(5) == 0 {
			last = most
		}
		faults = append(faults, fault{at, all[k], min(last, length-at), rand.New(rand.NewPCG(dice.Uint64(), 2))})
	}
	if only == "" {
		upgrade := fault{at: length / 2, kind: kind{name: "upgrade", do: (*torture).upgrade}, dice: rand.New(rand.NewPCG(seed, 3))}
		faults = append(faults, upgrade)
		slices.SortStableFunc(faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	}
	return faults
}
