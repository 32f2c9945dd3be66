package qrtz

import (
	"context"
	"sync"
)

// budget bounds how many bytes of large JOB_DATA are in memory at once. Those who ask are served in turn, so that small
// shares do not keep a large one waiting for ever.
type budget struct {
	size int64

	mu    sync.Mutex
	taken int64
	queue []*share
}

// share is what one run takes of a budget.
type share struct {
	bytes   int64
	granted chan struct{}
}

func newBudget(size int64) *budget { return &budget{size: size} }

// take waits until so many bytes are free, or until ctx ends. More than there is counts as all there is: whatever its size,
// one always gets through. What was taken must be given back.
func (b *budget) take(ctx context.Context, bytes int64) (giveBack func(), err error) {
	s := &share{bytes: min(bytes, b.size), granted: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, s)
	b.grant()
	b.mu.Unlock()
	select {
	case <-s.granted:
	case <-ctx.Done():
		b.leave(s)
		return nil, context.Cause(ctx)
	}
	return sync.OnceFunc(func() { b.free(s.bytes) }), nil
}

// grant serves those in front of the queue, as far as it goes.
func (b *budget) grant() {
	for len(b.queue) > 0 && b.taken+b.queue[0].bytes <= b.size {
		b.taken += b.queue[0].bytes
		close(b.queue[0].granted)
		b.queue = b.queue[1:]
	}
}

func (b *budget) free(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= bytes
	b.grant()
}

// leave takes back what was asked for, granted or not.
func (b *budget) leave(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-s.granted:
		b.taken -= s.bytes
	default:
		for i, one := range b.queue {
			if one == s {
				b.queue = append(b.queue[:i:i], b.queue[i+1:]...)
				break
			}
		}
	}
	b.grant()
}
