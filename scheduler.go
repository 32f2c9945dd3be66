package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Scheduler runs the schedules of one app in this process, together with the app's other nodes.
type Scheduler struct {
	cfg      Config
	db       *sql.DB
	handlers map[string]handler
}

// Open returns a scheduler on the caller's database.
func Open(db *sql.DB, cfg Config) (*Scheduler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("qrtz: %w", err)
	}
	return &Scheduler{cfg: cfg.withDefaults(), db: db, handlers: map[string]handler{}}, nil
}

func (s *Scheduler) handle(class string, h handler) {
	if class == "" {
		panic("qrtz: Handle needs a class")
	}
	if _, ok := s.handlers[class]; ok {
		panic(fmt.Sprintf("qrtz: class %q has a handler already", class))
	}
	s.handlers[class] = h
}

// Declare stub.
func (s *Scheduler) Declare(ctx context.Context, jobs ...Job) error { return errors.New("stub") }

// Run stub.
func (s *Scheduler) Run(ctx context.Context) error { return errors.New("stub") }

// Resize stub.
func (s *Scheduler) Resize(workers int) {}
