package qrtz

import (
	"context"
	"errors"
	"fmt"

	"github.com/qrtz-go/qrtz/outage"
)

// The parts of RunDue, each by itself, for tests that look at the tables in between, or have another node act there. They go by
// the database's clock at the moment they begin. An error is that of the database: a node that runs would try again.

// Beat sends a heartbeat. A node that finds itself taken for dead joins again.
func (m *Manual) Beat(ctx context.Context) error { return part(m.session.member.Beat(ctx)) }

// Pass makes a pass of the misfire handler, unless another node has just made one.
func (m *Manual) Pass(ctx context.Context) error {
	err := m.session.clock.Measure(ctx)
	if err == nil {
		err = m.session.misfire.OnePass(ctx)
	}
	return part(err)
}

// Poll writes results that have not been written, follows the switches, and carries out what is due.
func (m *Manual) Poll(ctx context.Context) error {
	m.session.values.Store(withoutEnd(ctx))
	err := m.session.clock.Measure(ctx)
	if err == nil {
		err = m.session.results.Flush(ctx)
	}
	if err == nil {
		err = m.claim(ctx)
	}
	return part(err)
}

// Attend writes what runs that wait have to say, and looks whether they are to be cancelled, or have timed out.
func (m *Manual) Attend(ctx context.Context) error {
	err := m.session.clock.Measure(ctx)
	if err == nil {
		m.timeOut()
		if err = m.session.attend(ctx); errors.Is(err, outage.ErrIdle) {
			err = nil
		}
	}
	return part(err)
}

func part(err error) error {
	if err != nil {
		return fmt.Errorf("qrtz: %w", err)
	}
	return nil
}
