package main

import (
	"maps"
	"slices"
)

// The states of executes, jobs and runs.
const (
	initial   = "INIT"
	executing = "EXECUTING"
	paused    = "PAUSED"
	complete  = "COMPLETE"
	failing   = "ERROR"

	pending   = "PENDING"
	running   = "RUNNING"
	succeeded = "SUCCEEDED"
	failed    = "FAILED"
	lost      = "LOST"
	cancelled = "CANCELLED"
	skipped   = "SKIPPED"
)

// The defaults of Config.
const (
	beatEvery    ms = 5000
	nodeTimeout  ms = 22500
	misfireEvery ms = 15000
	misfireAfter ms = 60000
	fresh           = beatEvery * 3 / 2 // without a heartbeat for longer, a node owns nothing, and a time off has not been seen to its end
	attendAfter  ms = 500
	leaseTime       = nodeTimeout * 9 / 10
	windowAhead     = beatEvery + 1000

	maxRecoveries = 5
)

// model is the tables, and what each process knows, as the rules say.
type model struct {
	now ms // the server's clock

	app   app
	nodes []node // sorted by id
	jobs  []job
	execs []exec
	runs  []run // in the order in which they were inserted
	beats map[int]beat
	modes map[string]string // how the handlers of a class end

	procs []proc

	instances, claims, requests, runsMade int // numbers given out

	fault *fault
	point int // statements so far in this step
}

type app struct {
	there     bool
	on        bool
	switched  ms
	pre, next ms
}

// node is a row of QRTZ_NODE.
type node struct {
	id                                      string
	on, byApp                               bool
	instance                                int // 0: none
	switched                                ms
	offSince, offSeen, appOffSince, appSeen ms
	joined                                  ms
	classes                                 []string
}

// beat is a row of QRTZ_HEARTBEAT.
type beat struct {
	count int64
	at    ms
}

type options struct {
	recovery   bool
	overlap    string
	queueLimit int
	maxRunning int
	priority   int
	timeout    ms
	attempts   int
	backoff    ms
	maxBackoff ms
	history    string
	keepRuns   int
}

func (o options) limited() bool { return o.overlap != "ALLOW" || o.maxRunning > 0 }
func (o options) slots() int    { return max(o.maxRunning, 1) }

// hasRow tells whether a run has a row while it goes.
func (o options) hasRow() bool {
	return o.history != "NONE" || o.limited() || o.recovery || o.attempts > 1
}

// keeps tells whether a run that ended so stays on record.
func (o options) keeps(state string) bool {
	return o.history == "ALL" || o.history == "FAILED" && state != succeeded
}

// pause is the backoff after so many attempts have been spent.
func (o options) pause(spent int) ms {
	pause := min(o.backoff, o.maxBackoff)
	for range spent - 1 {
		pause = min(2*pause, o.maxBackoff)
	}
	return pause
}

type job struct {
	id    int64
	class string
	state string
	opts  options
}

// exec is a row of QRTZ_EXECUTE.
type exec struct {
	id, job    int64
	spec       spec
	state      string
	reason     bool // STATE_REASON says something
	prev, next ms
	fired      int64
	misfire    string
	catchUp    int
	pausedAt   ms // 0: NULL
	changed    ms
	adopted    bool // it names its app
	claim      int  // that it was last moved with
}

// run is a row of QRTZ_RUN.
type run struct {
	seq       int   // in which order the rows were inserted
	exec      int64 // 0: asked for
	fire      ms
	request   int // of a run that was asked for
	job       int64
	attempt   int
	state     string
	available ms
	host      string
	instance  int
	claim     int // grows with each claim of the row, and whatever takes one back
	claimedAt ms
	started   ms
	finished  ms
	lastFire  ms
	count     int64

	recovers   int // seq of the run that this one recovers; 0: none
	recoveries int
	cancelAt   ms
	slot       int // of a limited job, from 1; 0: holds none
	key        string
	keyLive    bool
	once       bool
	ownTimeout ms // -1: the job's
	ownTries   int
	ownPrio    int // noPrio: the job's
	saved      string
}

const noPrio = -9

func (r *run) live() bool { return r.state == pending || r.state == running }

// sighting is what a process has seen of another instance.
type sighting struct {
	beats       int64
	row         bool
	since, beat ms // beat 0: no telling
	beaten      bool
}

// proc is a process, and what it knows.
type proc struct {
	node     string
	instance int
	alive    bool
	classes  []string

	clock     ms // when it last asked the server
	beatsSent int64
	fencedOff bool
	lease     ms // when its last heartbeat that arrived was sent
	lastLook  ms
	seen      map[int]sighting
	view      view

	unfinished bool // its last pass failed in some step

	held    []held // runs whose handlers go
	holding map[string]bool
	results []result
	doubts  []doubt
}

// held is a run whose handler goes.
type held struct {
	seq      int // of its row; 0: it has none
	job      int64
	exec     int64
	fire     ms
	class    string
	claim    int
	instance int
	attempt  int
	recov    int
	opts     options
	started  ms
	said     bool
	cause    string // why its context has ended
	saved    string
}

// result is how a run ended, until it is on record.
type result struct {
	held
	state    string
	finished ms
	retryAt  ms
	recovery bool
}

// doubt is what a process has to give back.
type doubt struct {
	kind     string // "fires", "pending" or "runs"
	instance int
	claim    int
	execs    []int64 // fires: the executes, and the fires of each
	fires    []ms
	seqs     []int // pending: the runs, and the claims before
	before   []int
	runs     []held // never started
}

// fault is what goes wrong in a step of a process, and where.
type fault struct {
	at   int
	how  string       // "freeze", "lost" (carried out, and no answer), "never" (never arrived)
	then func(*model) // what others do in a freeze
	hit  bool
}

func (m *model) clone() *model {
	c := *m
	c.nodes, c.jobs, c.execs, c.runs = slices.Clone(m.nodes), slices.Clone(m.jobs), slices.Clone(m.execs), slices.Clone(m.runs)
	c.beats, c.modes = maps.Clone(m.beats), maps.Clone(m.modes)
	c.procs = slices.Clone(m.procs)
	for i := range c.procs {
		p := &c.procs[i]
		p.seen, p.holding = maps.Clone(p.seen), maps.Clone(p.holding)
		p.held, p.results, p.doubts = slices.Clone(p.held), slices.Clone(p.results), slices.Clone(p.doubts)
	}
	return &c
}

// statement is one thing that a process asks of the server, which happens whole or not at all. It tells whether the answer came.
func (m *model) statement(effect func()) bool {
	m.point++
	if f := m.fault; f != nil && m.point == f.at && !f.hit {
		f.hit = true
		switch f.how {
		case "freeze":
			m.fault = nil
			f.then(m)
			m.fault = f
		case "lost":
			effect()
			return false
		case "never":
			return false
		}
	}
	effect()
	return true
}

func (m *model) node(id string) *node {
	for i := range m.nodes {
		if m.nodes[i].id == id {
			return &m.nodes[i]
		}
	}
	return nil
}

func (m *model) job(id int64) *job {
	for i := range m.jobs {
		if m.jobs[i].id == id {
			return &m.jobs[i]
		}
	}
	return nil
}

func (m *model) exec(id int64) *exec {
	for i := range m.execs {
		if m.execs[i].id == id {
			return &m.execs[i]
		}
	}
	return nil
}

func (m *model) run(seq int) *run {
	for i := range m.runs {
		if m.runs[i].seq == seq {
			return &m.runs[i]
		}
	}
	return nil
}

// fireRun is the row that the fire of an execute has: its first attempt.
func (m *model) fireRun(exec int64, fire ms) *run {
	for i := range m.runs {
		if r := &m.runs[i]; exec != 0 && r.exec == exec && r.fire == fire && r.attempt == 1 {
			return r
		}
	}
	return nil
}

func (m *model) insert(r run) *run {
	m.runsMade++
	r.seq = m.runsMade
	m.runs = append(m.runs, r)
	return &m.runs[len(m.runs)-1]
}

func (m *model) deleteRun(seq int) {
	m.runs = slices.DeleteFunc(m.runs, func(r run) bool { return r.seq == seq })
}

// classOf is the class of a job; "" if it is gone.
func (m *model) classOf(id int64) string {
	if j := m.job(id); j != nil {
		return j.class
	}
	return ""
}
