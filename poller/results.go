package poller

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

const (
	// flushEvery is how long a result may wait to be written with others. A process killed within it
	// leaves the run RUNNING, and so LOST, though its handler had returned.
	flushEvery = 25 * time.Millisecond
	flushBatch = 500

	// flushLate is how long a result that nothing waits for may wait for company: until there are as many as a claim takes together, or one that
	// something waits for.
	flushLate = 500 * time.Millisecond

	flushTimeout  = 10 * time.Second // for one batch
	flushMaxPause = 2 * time.Second  // between tries while the database is away
	lastFlush     = 10 * time.Second // for what is left when stopping

	lockedFirst = time.Second     // until a result whose row was locked is tried again
	lockedMost  = 5 * time.Second // as that pause grows
)

// Results collects the results of runs and writes them in batches. What cannot be written is kept
// until the database is back. Those whose rows another transaction holds are tried again beside the others.
type Results struct {
	complete func(context.Context, []run.Result) (run.Completed, error)
	log      zerolog.Logger

	full     chan struct{} // a batch is full
	flushing chan struct{} // holds one while a flush is under way

	// Awaited tells whether a caller of this process waits for the end of a run, and Nodes how many nodes claim. Set them before use; nil is for
	// never, and for one.
	Awaited func(runID int64) bool
	Nodes   func() int

	mu      sync.Mutex
	waiting []run.Result
	wanted  bool           // something waits for one of them
	since   time.Time      // when the first of them came
	locked  []run.Result   // whose rows another transaction holds
	asked   map[int64]bool // the jobs whose handlers ask for the last success (WriteOf)
	said    bool           // that there are such
}

// NewResults returns a collector that writes with complete.
func NewResults(complete func(context.Context, []run.Result) (run.Completed, error), log zerolog.Logger) *Results {
	return &Results{complete: complete, log: log, full: make(chan struct{}, 1), flushing: make(chan struct{}, 1)}
}

// Add takes a result to be written, if its run has a row. It never blocks.
func (r *Results) Add(result run.Result) {
	if result.Run.ID == 0 {
		return
	}
	wanted := !mayWait(result) || r.Awaited != nil && r.Awaited(result.Run.ID)
	r.mu.Lock()
	if len(r.waiting) == 0 {
		r.since = time.Now()
	}
	r.waiting, r.wanted = append(r.waiting, result), r.wanted || wanted || r.asked[result.Run.JobID]
	full := len(r.waiting) == flushBatch
	r.mu.Unlock()
	if full {
		select {
		case r.full <- struct{}{}:
		default: // Run knows already
		}
	}
}

// mayWait tells whether nothing waits for a result: that of a fire which succeeded, of a job that neither limits its runs nor has them
// recovered, if the process dies. Of runs that were enqueued, those who enqueued them may wait for the end.
func mayWait(r run.Result) bool {
	o := r.Run.Options
	return r.State == run.Succeeded && r.Run.ExecuteID != 0 && !o.Recovery && o.Overlap == run.OverlapAllow && o.MaxRunning == 0
}

// WriteOf writes what waits of a job, or waits until that has been written, and has no further result of the job wait for company: its
// handler asks which run has succeeded last.
func (r *Results) WriteOf(ctx context.Context, job int64) error {
	r.mu.Lock()
	if r.asked == nil {
		r.asked = map[int64]bool{}
	}
	r.asked[job] = true
	waits := slices.ContainsFunc(r.waiting, func(w run.Result) bool { return w.Run.JobID == job })
	r.mu.Unlock()
	if waits {
		_, err := r.flush(ctx)
		return err
	}
	end, err := r.begin(ctx) // a flush under way may be writing it
	if err == nil {
		end()
	}
	return err
}

// Hurry has what waits written with the next flush.
func (r *Results) Hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = true
}

// ripe tells whether what waits is to be written now.
func (r *Results) ripe() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) > 0 && (r.wanted || len(r.waiting) >= r.company() || time.Since(r.since) >= flushLate)
}

func (r *Results) company() int {
	if r.Nodes == nil {
		return companySize(1)
	}
	return companySize(r.Nodes())
}

// Run writes results until ctx is done, and then what is left, for at most ten seconds.
func (r *Results) Run(ctx context.Context) {
	var beside sync.WaitGroup
	beside.Go(func() { r.retryLocked(ctx) })
	pacer := outage.New(r.log, "write results")
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.full:
		case <-timer.C:
		}
		if !r.ripe() {
			timer.Reset(flushEvery)
			continue
		}
		wrote, err := r.flush(context.WithoutCancel(ctx))
		timer.Reset(pause(pacer, wrote, err))
	}
	beside.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlush)
	defer cancel()
	r.finish(last, pacer)
}

// pause is how long to wait for the next flush. One that had nothing to write says nothing about the database.
func pause(pacer *outage.Pacer, wrote bool, err error) time.Duration {
	switch {
	case err != nil:
		return pacer.Next(err, flushMaxPause)
	case !wrote:
		return pacer.Next(outage.ErrIdle, flushEvery)
	default:
		return pacer.Next(nil, flushEvery)
	}
}

// finish writes what is left until ctx is done, those whose rows are locked, too.
func (r *Results) finish(ctx context.Context, pacer *outage.Pacer) {
	for {
		r.unlock()
		wrote, err := r.flush(ctx)
		if err == nil && r.count() == 0 {
			return
		}
		select {
		case <-ctx.Done():
			r.log.Error().Err(err).Int("results", r.count()).Msg("stopped before the database took all results; their runs will be LOST")
			return
		case <-time.After(pause(pacer, wrote, err)):
		}
	}
}

// retryLocked tries, beside everything else, to write the results whose rows are locked.
func (r *Results) retryLocked(ctx context.Context) {
	pacer := outage.New(r.log, "write results whose rows were locked")
	wait := lockedFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
		some := r.takeLocked()
		if len(some) == 0 {
			wait = lockedFirst
			continue
		}
		done, err := r.write(context.WithoutCancel(ctx), some)
		r.keepLocked(done.Left)
		pacer.Next(err, lockedMost)
		if left := len(done.Locked) + len(done.Left); left < len(some) {
			r.log.Info().Int("results", len(some)-left).Int("left", left).Msg("results whose rows were locked have been written")
			wait = lockedFirst
		} else {
			wait = min(2*wait, lockedMost)
		}
	}
}

// Flush writes everything that waits, those whose rows were locked, too; what could not be written waits on.
func (r *Results) Flush(ctx context.Context) error {
	r.unlock()
	_, err := r.flush(ctx)
	return err
}

// begin waits until no flush is under way, and begins one.
func (r *Results) begin(ctx context.Context) (end func(), err error) {
	select {
	case r.flushing <- struct{}{}:
		return func() { <-r.flushing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// flush writes everything that waits. What comes in meanwhile is left to the next flush, or a steady stream would be
// written in batches of one.
func (r *Results) flush(ctx context.Context) (wrote bool, err error) {
	end, err := r.begin(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	for left := r.left(); left > 0; {
		batch := r.take()
		left -= len(batch)
		done, err := r.write(ctx, batch)
		r.putBack(done.Left)
		if err != nil {
			return wrote, err
		}
		wrote = true
	}
	return wrote, nil
}

// write writes a batch and says what became of it. What is locked is kept for retryLocked.
func (r *Results) write(ctx context.Context, batch []run.Result) (run.Completed, error) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	done, err := r.complete(ctx, batch)
	if done.Late > 0 {
		r.log.Warn().Int("results", done.Late).Msg("results came too late: their runs had been taken from this instance")
	}
	r.sayRefused(done.Refused)
	if r.keepLocked(done.Locked) {
		r.log.Warn().Int("results", len(done.Locked)).Int64("run", done.Locked[0].Run.ID).
			Msg("results cannot be written while another transaction holds the rows of their runs; trying again")
	}
	return done, err
}

// sayRefused logs each run whose result is lost, and of those that are stored in part the first.
func (r *Results) sayRefused(refused []run.Refused) {
	stored := 0
	for _, f := range refused {
		if f.Stored {
			if stored++; stored > 1 {
				continue
			}
		}
		line := r.log.Warn().Int64("run", f.Run.ID).Str("class", f.Run.Class).Str("error", text.Clip(f.Err.Error(), 1<<10))
		if f.Stored {
			line.Msg("the server refused the result of a run; it is stored with what the server takes")
		} else {
			line.Msg("the server refuses the result of a run in any form; given up, the run will be LOST")
		}
	}
	if stored > 1 {
		r.log.Warn().Int("results", stored-1).Msg("so are further results")
	}
}

func (r *Results) take() []run.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := min(len(r.waiting), flushBatch)
	batch := r.waiting[:n:n]
	r.waiting, r.since = r.waiting[n:], time.Now()
	if len(r.waiting) == 0 {
		r.wanted = false
	}
	return batch
}

func (r *Results) putBack(batch []run.Result) {
	if len(batch) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting, r.wanted = append(batch, r.waiting...), true
}

func (r *Results) takeLocked() []run.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	some := r.locked
	r.locked = nil
	if len(some) == 0 {
		r.said = false
	}
	return some
}

// keepLocked keeps results for later, and tells whether that is worth a word in the log.
func (r *Results) keepLocked(some []run.Result) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(some) == 0 {
		return false
	}
	r.locked, first, r.said = append(r.locked, some...), !r.said, true
	return first
}

// unlock has the locked ones written with the others.
func (r *Results) unlock() { r.putBack(r.takeLocked()) }

// left is how many wait to be written by the next flush.
func (r *Results) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// count is how many have not been written.
func (r *Results) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting) + len(r.locked)
}
