package qrtz

import "context"

// TypedJob is a job whose data is a T, by its name: what handles it and what enqueues it agree, or the program does not compile. Make
// one with NewJob, and keep it in a variable of the package. Its class is its name.
//
// It is a thin layer: what is stored is what Handle, Declare and Enqueue store, so that a job can be used both ways.
type TypedJob[T any] struct{ name string }

// NewJob names a job whose data is a T, as JSON. Nothing is stored before it is declared.
func NewJob[T any](name string) TypedJob[T] { return TypedJob[T]{name} }

// Name is the name of the job, and of its class.
func (j TypedJob[T]) Name() string { return j.name }

// Handle registers the handler of the job's class, as the function Handle does.
func (j TypedJob[T]) Handle(s *Scheduler, h func(ctx context.Context, run *Run, data T) error) {
	Handle(s, j.name, h)
}

// Job is the job with its schedules, to be declared. Its Options, Description and other fields can be set before that. A fire hands T's
// zero value to the handler, unless its schedule has data (TypedJob.With).
func (j TypedJob[T]) Job(schedules ...Schedule) Job {
	return Job{Name: j.name, Schedules: schedules}
}

// With is a schedule's option: the data of its fires, as WithData.
func (j TypedJob[T]) With(data T) ScheduleOption { return WithData(data) }

// Enqueuer is a Scheduler, or the Client of a transaction (Scheduler.In).
type Enqueuer interface {
	Enqueue(ctx context.Context, job string, data any, options ...EnqueueOption) (runID int64, err error)
}

// Enqueue has the job run once, as Client.Enqueue does.
func (j TypedJob[T]) Enqueue(ctx context.Context, c Enqueuer, data T, options ...EnqueueOption) (runID int64, err error) {
	return c.Enqueue(ctx, j.name, data, options...)
}

// Request is one run of the job for Client.EnqueueMany.
func (j TypedJob[T]) Request(data T, options ...EnqueueOption) Request {
	return Request{Job: j.name, Data: data, Options: options}
}
