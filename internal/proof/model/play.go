package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qrtz-go/qrtz"
)

// maxBeliefs bounds how many models are kept of which the tables do not tell which is true.
const maxBeliefs = 100

// player carries out steps by the engine and by the model.
type player struct {
	*world
	beliefs []*model // that agree with the tables; more than one after a fault
	counts  counts
	nested  bool // the step is one of others in a freeze
}

// counts say what has been done.
type counts struct {
	steps, faults int
	slow          int // histories given up
	most          int // beliefs at a time
}

func newPlayer(w *world) (*player, error) {
	if err := w.reset(); err != nil {
		return nil, err
	}
	m := &model{now: startAt, beats: map[int]beat{}, modes: map[string]string{}, procs: make([]proc, procs)}
	m.app = app{pre: -1}
	for i := range m.procs {
		m.procs[i] = proc{node: fmt.Sprintf("n%d", i), classes: classesOf[i]}
	}
	return &player{world: w, beliefs: []*model{m}}, nil
}

// play carries out a history. The error is a difference.
func (p *player) play(steps []Step) error {
	for n, s := range steps {
		begin := time.Now()
		if err := p.step(s); err != nil {
			if time.Since(begin) > slowStep || errors.Is(err, context.DeadlineExceeded) {
				return errSlow
			}
			return fmt.Errorf("step %d, %s: %w", n+1, s, err)
		}
		p.counts.steps++
	}
	return nil
}

// errSlow says that a step took so long that the limits of the engine in real time may have had a part in it: a claim of pending runs
// leaves what it has not come to within a second. Such a history proves nothing.
var errSlow = errors.New("the machine is too slow")

const slowStep = 900 * time.Millisecond

var errNothing = errors.New("nothing to do")

// step carries out one step, and compares.
func (p *player) step(s Step) error {
	m := p.beliefs[0]
	real, ideal, err := p.resolve(s, m)
	if errors.Is(err, errNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	alive := isProcStep(s.Do) && s.At > 0
	if !alive {
		answer, err := real()
		if err != nil {
			return err
		}
		got, err := p.dump()
		if err != nil {
			return err
		}
		var left []*model
		var wrong string
		for _, m := range p.beliefs {
			want := ideal(m)
			if want != answer {
				wrong = fmt.Sprintf("the engine answers %q, the model %q", answer, want)
			} else if d := differ(got, m.dump()); d != "" {
				wrong = d
			} else {
				left = append(left, m)
			}
		}
		if len(left) == 0 {
			return errors.New(wrong)
		}
		p.beliefs = left
		return nil
	}
	return p.faulty(s, real, ideal)
}

// byName are the steps that name a job, which must be there.
var byName = map[string]bool{"pause job": true, "resume job": true, "enqueue": true}

// faulty carries out a step in which something goes wrong. The model does not know at which of its own statements: all are tried, and
// those kept that lead to what the tables say.
func (p *player) faulty(s Step, real func() (string, error), ideal func(*model) string) error {
	m := p.beliefs[0]
	type other struct {
		real  func() (string, error)
		ideal func(*model) string
	}
	var others []other
	added := map[string]bool{}
	if s.How == "freeze" {
		for _, o := range s.Then {
			if row := fmt.Sprint(o.Do, o.ID); o.Job != nil || o.Exec != nil {
				if added[row] {
					continue
				}
				added[row] = true
			}
			if o.Do == "delete" {
				added[fmt.Sprint("deleted", o.ID)] = true
			} else if byName[o.Do] && added[fmt.Sprint("deleted", o.ID)] {
				continue
			}
			if o.At > 0 || o.Node == s.Node && isProcStep(o.Do) {
				continue
			}
			p.nested = true
			real, ideal, err := p.resolve(o, m)
			p.nested = false
			if errors.Is(err, errNothing) {
				continue
			}
			if err != nil {
				return err
			}
			others = append(others, other{real, ideal})
		}
	}
	t := p.taps[s.Node]
	var failed error
	var answers []string
	act := func() {
		for _, o := range others {
			answer, err := o.real()
			failed = errors.Join(failed, err)
			answers = append(answers, answer)
		}
	}
	*t = tap{at: s.At, how: s.How, then: act}
	_, err := real()
	hit := t.hit
	if hit {
		p.counts.faults++
	}
	*t = tap{}
	if s.How == "freeze" && !hit {
		act()
	}
	if s.How == "freeze" || !hit {
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return failed
	}
	got, err := p.dump()
	if err != nil {
		return err
	}
	var left []*model
	var wrong string
	add := func(m *model) {
		d := differ(got, m.dump())
		if d == "" {
			left = append(left, m)
		} else if wrong == "" || len(d) < len(wrong) {
			wrong = d
		}
	}
	agree := true
	then := func(m *model) {
		for i, o := range others {
			if want := o.ideal(m); want != answers[i] {
				agree = false
			}
		}
	}
	for _, was := range p.beliefs {
		if !hit {
			agree = true
			c := was.clone()
			ideal(c)
			if then(c); agree {
				add(c)
			}
			continue
		}
		hows := []string{"freeze"}
		if s.How != "freeze" {
			hows = []string{"lost", "never"}
		}
		for _, how := range hows {
			for at := 1; ; at++ {
				agree = true
				c := was.clone()
				f := &fault{at: at, how: how, then: then}
				c.fault, c.point = f, 0
				ideal(c)
				c.fault = nil
				over := !f.hit
				if over && how == "freeze" {
					then(c)
				}
				if agree {
					add(c)
				}
				if over {
					break
				}
			}
		}
	}
	if len(left) == 0 {
		return errors.New(or(wrong, "an answer differs"))
	}
	p.beliefs = distinct(left)
	p.counts.most = max(p.counts.most, len(p.beliefs))
	return nil
}

// distinct leaves out models that are equal to others, and more of them than can be kept.
func distinct(models []*model) (some []*model) {
	seen := map[string]bool{}
	for _, m := range models {
		m.point = 0
		key := fmt.Sprintf("%+v", *m)
		if !seen[key] && len(some) < maxBeliefs {
			seen[key] = true
			some = append(some, m)
		}
	}
	return some
}

// mostLines is how many lines of each side a difference shows.
const mostLines = 8

// differ says in which lines two states differ; "" if in none.
func differ(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	var b strings.Builder
	list := func(who string, some, others []string) {
		n := 0
		for _, line := range some {
			if slices.Contains(others, line) {
				continue
			}
			if n++; n <= mostLines {
				fmt.Fprintf(&b, "\n  %s %s", who, line)
			}
		}
		if n > mostLines {
			fmt.Fprintf(&b, "\n  %s … and %d more", who, n-mostLines)
		}
	}
	list("tables:", got, want)
	list("model: ", want, got)
	return b.String()
}

func isProcStep(do string) bool {
	return slices.Contains([]string{"beat", "pass", "poll", "attend"}, do)
}

// resolve says what a step is for the engine and for the model, given what is there before it.
func (p *player) resolve(s Step, m *model) (real func() (string, error), ideal func(*model) string, err error) {
	w := p.world
	plain := func(f func() error) func() (string, error) { return func() (string, error) { return "", f() } }
	quiet := func(f func(*model)) func(*model) string { return func(m *model) string { f(m); return "" } }
	i := s.Node % procs
	me := &m.procs[i]
	man := w.manuals[i]
	if slices.Contains([]string{"beat", "pass", "poll", "attend", "hold", "release", "stop", "kill"}, s.Do) && !me.alive {
		return nil, nil, errNothing
	}
	target := func(ids map[string]int64) (name, int64, error) {
		if len(m.runs) == 0 {
			return name{}, 0, errNothing
		}
		if p.nested { // the row of that attempt may be gone by then; the first one's id names the run all the same
			ids = w.origins
		}
		r := &m.runs[int(s.ID)%len(m.runs)]
		return r.name(), ids[r.label()], nil
	}
	ok := func(err error, problems ...error) (string, error) {
		if err == nil {
			return "yes", nil
		}
		if problems == nil || slices.ContainsFunc(problems, func(p error) bool { return errors.Is(err, p) }) {
			return "no", nil
		}
		return "", err
	}
	said := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	switch s.Do {
	case "job":
		if m.job(s.ID) != nil {
			return nil, nil, errNothing
		}
		o := s.Job
		j := job{id: s.ID, class: classOfJob(s.ID), state: initial, opts: options{
			recovery: o.Recovery, overlap: or(o.Overlap, "ALLOW"), history: or(o.History, "ALL"), queueLimit: o.QueueLimit, maxRunning: o.MaxRunning, priority: o.Priority,
			timeout: o.Timeout, attempts: max(o.Attempts, 1), backoff: o.Backoff, maxBackoff: o.MaxBackoff, keepRuns: o.KeepRuns,
		}}
		return plain(func() error { return w.addJob(j) }), quiet(func(m *model) { m.jobs = append(m.jobs, j) }), nil
	case "exec":
		of := int64(s.N)
		if m.exec(s.ID) != nil || m.job(of) == nil {
			return nil, nil, errNothing
		}
		x := s.Exec
		e := exec{id: s.ID, job: of, state: or(x.State, executing), misfire: or(x.Misfire, "FIRE_ONCE"), catchUp: x.CatchUp, changed: m.now, adopted: !x.NoApp, spec: spec{
			cron: x.Cron, every: x.Every, repeat: x.Repeat,
		}}
		if x.Start != 0 {
			e.spec.start = m.now + x.Start
		}
		if x.End != 0 {
			e.spec.end = max(m.now+x.End, e.spec.start)
		}
		return plain(func() error { return w.addExec(e) }), quiet(func(m *model) { m.execs = append(m.execs, e) }), nil
	case "advance":
		return plain(func() error { w.clock.now += s.By; return nil }), quiet(func(m *model) { m.now += s.By }), nil
	case "join":
		if me.alive {
			return nil, nil, errNothing
		}
		id := fmt.Sprintf("n%d", i)
		for k := 2; ; k++ {
			if n := m.node(id); n == nil || n.instance == 0 {
				break
			}
			id = fmt.Sprintf("n%d-%d", i, k)
		}
		return plain(func() error { return w.join(i, id) }), quiet(func(m *model) {
			m.procs[i] = proc{node: id, classes: classesOf[i], alive: true, seen: map[int]sighting{}, holding: map[string]bool{}, view: view{me: -1}, lastLook: -farPast}
			p := &m.procs[i]
			if !m.app.there {
				m.app = app{there: true, on: true, pre: -1}
			}
			m.join(p)
			m.pass(p, true)
		}), nil
	case "beat":
		return plain(func() error { return man.Beat(w.ctx) }), quiet(func(m *model) { m.beat(&m.procs[i]) }), nil
	case "pass":
		return plain(func() error { return man.Pass(w.ctx) }), quiet(func(m *model) { m.pass(&m.procs[i], false) }), nil
	case "poll":
		return plain(func() error { return man.Poll(w.ctx) }), quiet(func(m *model) { m.poll(&m.procs[i]) }), nil
	case "attend":
		return plain(func() error { return man.Attend(w.ctx) }), quiet(func(m *model) { m.attend(&m.procs[i]) }), nil
	case "hold":
		return plain(func() error { man.Hold(s.Text, false); return nil }), quiet(func(m *model) { m.procs[i].holding[s.Text] = true }), nil
	case "release":
		return plain(func() error { _, err := man.Release(w.ctx, s.Text, false); return err }), quiet(func(m *model) { m.releases(&m.procs[i], s.Text) }), nil
	case "stop":
		return plain(func() error {
			w.manuals[i] = nil
			_, err := man.Stop(w.ctx)
			return err
		}), quiet(func(m *model) { m.stop(&m.procs[i]) }), nil
	case "kill":
		return plain(func() error { w.kill(i); return nil }), quiet(func(m *model) {
			m.procs[i].alive, m.procs[i].held, m.procs[i].results, m.procs[i].doubts = false, nil, nil, nil
		}), nil
	case "mode":
		return plain(func() error { w.modes[classOfJob(s.ID)] = s.Text; return nil }), quiet(func(m *model) { m.modes[classOfJob(s.ID)] = s.Text }), nil
	case "app":
		return plain(func() error { return w.exec(`UPDATE QRTZ_APP SET STATE = ?`, yn(s.On)) }), quiet(func(m *model) { m.switchApp(s.On) }), nil
	case "node":
		if len(m.nodes) == 0 {
			return nil, nil, errNothing
		}
		id := m.nodes[s.Node%len(m.nodes)].id
		return plain(func() error { return w.exec(`UPDATE QRTZ_NODE SET STATE = ? WHERE HOST_IP = ?`, yn(s.On), id) }), quiet(func(m *model) { m.switchNode(id, s.On) }), nil
	case "pause":
		return plain(func() error {
				return w.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'PAUSED' WHERE ID = ? AND STATE = 'EXECUTING'`, s.ID)
			}),
			quiet(func(m *model) { m.pauseBySQL(s.ID) }), nil
	case "resume":
		return plain(func() error {
				return w.exec(`UPDATE QRTZ_EXECUTE SET STATE = 'EXECUTING' WHERE ID = ? AND STATE IN ('PAUSED', 'INIT')`, s.ID)
			}),
			quiet(func(m *model) { m.resumeBySQL(s.ID) }), nil
	case "pause job":
		if m.job(s.ID) == nil {
			return nil, nil, errNothing
		}
		return plain(func() error { return w.client.Pause(w.ctx, classOfJob(s.ID), "") }), quiet(func(m *model) { m.pauseJob(s.ID) }), nil
	case "resume job":
		if m.job(s.ID) == nil {
			return nil, nil, errNothing
		}
		return func() (string, error) { return ok(w.client.Resume(w.ctx, classOfJob(s.ID), "")) },
			func(m *model) string { return said(m.resumeJob(s.ID)) }, nil
	case "cron":
		return plain(func() error {
				return w.exec(`UPDATE QRTZ_EXECUTE SET CRON = ? WHERE ID = ? AND JOB_TYPE = 'CRON'`, s.Text, s.ID)
			}),
			quiet(func(m *model) { m.setCron(s.ID, s.Text) }), nil
	case "enqueue":
		if m.job(s.ID) == nil {
			return nil, nil, errNothing
		}
		return func() (string, error) {
				request, taken, err := w.enqueue(s.ID, s)
				return fmt.Sprint(request, taken), err
			}, func(m *model) string {
				at, prio, timeout := never, noPrio, ms(-1)
				if s.By > 0 {
					at = m.now + s.By
				}
				if s.N/4%4 > 0 {
					prio = s.N/4%4 - 2
				}
				if s.N/16%2 == 1 {
					timeout = 3000
				}
				request, taken := m.enqueue(s.ID, at, s.Text, s.On, s.N%4, prio, timeout)
				return fmt.Sprint(request, taken)
			}, nil
	case "sql run":
		if m.job(s.ID) == nil {
			return nil, nil, errNothing
		}
		return plain(func() error {
			done, err := w.db.ExecContext(w.ctx, `INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID) VALUES (?, ?)`, appName, s.ID)
			if err != nil {
				return err
			}
			id, err := done.LastInsertId()
			w.noteRequest(id)
			return err
		}), quiet(func(m *model) { m.insertBySQL(s.ID) }), nil
	case "cancel":
		of, id, err := target(w.runIDs)
		return func() (string, error) { return ok(w.client.Cancel(w.ctx, id), qrtz.ErrWrongState, qrtz.ErrNotFound) }, func(m *model) string { return said(m.cancel(of)) }, err
	case "sql cancel":
		of, id, err := target(w.origins)
		return plain(func() error {
			return w.exec(`UPDATE QRTZ_RUN SET CANCEL_AT = ? WHERE COALESCE(ORIGIN, ID) = ? AND STATE IN ('PENDING', 'RUNNING')`, w.clock.now, id)
		}), quiet(func(m *model) { m.cancelBySQL(of) }), err
	case "end":
		of, id, err := target(w.origins)
		return plain(func() error {
			return w.exec(`UPDATE QRTZ_RUN SET STATE = 'CANCELLED' WHERE COALESCE(ORIGIN, ID) = ? AND STATE = 'RUNNING'`, id)
		}), quiet(func(m *model) { m.endBySQL(of) }), err
	case "limit":
		most, tries := s.N%4, s.N/4%3+1
		return plain(func() error {
				return w.exec(`UPDATE QRTZ_JOB SET MAX_RUNNING = ?, ATTEMPTS = ? WHERE ID = ?`, most, tries, s.ID)
			}),
			quiet(func(m *model) { m.limit(s.ID, most, tries) }), nil
	case "edit":
		e := m.exec(s.ID)
		if e == nil {
			return nil, nil, errNothing
		}
		repeat, end := int64(s.N)-1, never
		if s.By != 0 {
			end = max(m.now+s.By, e.spec.start)
		}
		return plain(func() error {
			column := end
			if end == never {
				column = -1
			}
			return w.exec(`UPDATE QRTZ_EXECUTE SET REPEAT_COUNT = ?, END_TIME = ?, NEXT_FIRE_TIME = IF(?, NULL, NEXT_FIRE_TIME) WHERE ID = ?`, repeat, column, s.On, s.ID)
		}), quiet(func(m *model) { m.edit(s.ID, repeat, end, s.On) }), nil
	case "delete":
		return func() (string, error) { return ok(w.client.Delete(w.ctx, classOfJob(s.ID)), qrtz.ErrNotFound) }, func(m *model) string { return said(m.deleteJob(s.ID)) }, nil
	case "retry":
		of, id, err := target(w.runIDs)
		return func() (string, error) {
			_, err := w.client.Retry(w.ctx, id)
			return ok(err, qrtz.ErrWrongState, qrtz.ErrNotFound)
		}, func(m *model) string { return said(m.retry(of)) }, err
	}
	return nil, nil, fmt.Errorf("no such step: %q", s.Do)
}

const farPast = ms(1) << 60
