package qrtz

import (
	"context"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/node"
)

const (
	hintAgain = time.Hour // after which it is asked again whether a class has a handler
	maxHints  = 100_000   // jobs and classes that are remembered
)

// hints knows for which jobs and classes it has been asked whether a live node handles them.
type hints struct {
	mu             sync.Mutex
	byJob, byClass map[string]time.Time
}

// due tells whether to ask now: it has not been asked within the last hour.
func (h *hints) due(asked *map[string]time.Time, name string) bool {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := (*asked)[name]; ok && now.Sub(at) < hintAgain {
		return false
	}
	if *asked == nil || len(*asked) >= maxHints {
		*asked = map[string]time.Time{}
	}
	(*asked)[name] = now
	return true
}

// hintDeclared logs which classes of declared jobs neither this program nor any live node has a handler for. What fails here costs
// nothing but the hint.
func (c *Client) hintDeclared(ctx context.Context, declarations []execute.Declaration) {
	handled := c.handled(c.onTables(c.pool())) // as the declaration itself
	for _, d := range declarations {
		c.hint(ctx, handled, d.Name, d.Class)
	}
}

// hintEnqueued is hintDeclared for jobs of which runs were enqueued. It asks the database once an hour for each.
func (c *Client) hintEnqueued(ctx context.Context, jobs ...string) {
	for _, job := range jobs {
		if !c.scheduler.hints.due(&c.scheduler.hints.byJob, job) {
			continue
		}
		on := c.onTables(c.pool())
		if class, err := execute.ClassOf(ctx, on, c.scheduler.cfg.App, job); err == nil {
			c.hint(ctx, c.handled(on), job, class)
		}
	}
}

func (c *Client) hint(ctx context.Context, handled *node.Handled, job, class string) {
	hints := &c.scheduler.hints
	if c.scheduler.handles(class) || !hints.due(&hints.byClass, class) {
		return
	}
	if why, err := handled.WhyNot(ctx, c.scheduler.cfg.App, class); err == nil && why != "" {
		c.logger.Warn().Str("job", text.Line(job, maxReason)).Str("class", text.Line(class, maxReason)).Str("why", why).
			Msg("nothing runs this job now: start a program that has a handler for its class")
	}
}

// handles tells whether this process has a handler for a class.
func (s *Scheduler) handles(class string) bool { return s.handlers.has(class) }
