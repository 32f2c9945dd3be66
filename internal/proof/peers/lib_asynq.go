package main

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	libAsynq = "asynq"

	asynqCheck = 20 * time.Millisecond // for new tasks when there are none, tuned; 1 s is the default
)

type asynqLibrary struct {
	spec
	handlers
	opt    asynq.RedisClientOpt
	client *asynq.Client
}

func openAsynq(s spec, h handlers) (library, error) {
	opt, err := redis.ParseURL(s.DSN)
	if err != nil {
		return nil, err
	}
	a := &asynqLibrary{spec: s, handlers: h, opt: asynq.RedisClientOpt{Addr: opt.Addr, Password: opt.Password, PoolSize: s.Connections}}
	a.client = asynq.NewClient(a.opt)
	return a, nil
}

func (a *asynqLibrary) about() string { return version("github.com/hibiken/asynq") }

func (a *asynqLibrary) enqueue(ctx context.Context, n int64) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(askedJob, binary.AppendVarint(nil, n)))
	return err
}

func (a *asynqLibrary) enqueueMany(context.Context, int64, int) error { return errNotInBulk }

func (a *asynqLibrary) work(ctx context.Context) error {
	c := asynq.Config{Concurrency: a.Workers, LogLevel: asynq.ErrorLevel}
	if a.Tuned {
		c.TaskCheckInterval = asynqCheck
	}
	server := asynq.NewServer(a.opt, c)
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		n, _ := binary.Varint(task.Payload())
		a.asked(n)
		return nil
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (a *asynqLibrary) close() { _ = a.client.Close() }
