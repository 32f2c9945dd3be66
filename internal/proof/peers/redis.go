package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// redisServer is the server of asynq.
type redisServer struct {
	program
	fsync  string // appendfsync
	opt    redis.Options
	client *redis.Client
	info   string
}

var redisBins = []string{"/usr/bin", "/usr/local/bin", "/usr/sbin"}

func startRedis(ctx context.Context, fsync string) (*redisServer, error) {
	path, ok := find("redis-server", redisBins...)
	if !ok {
		return nil, absent("Redis", "redis-server")
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	r := &redisServer{fsync: fsync, opt: redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port), Password: password()}}
	if r.dir, err = directory("redis", nil); err != nil {
		return nil, err
	}
	if err := r.start(ctx, path, port); err != nil {
		r.close()
		return nil, fmt.Errorf("start Redis: %w", err)
	}
	return r, nil
}

func (r *redisServer) start(ctx context.Context, path string, port int) error {
	err := r.begin(nil, path, "--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--requirepass", r.opt.Password, "--dir", r.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", r.fsync, "--daemonize", "no")
	if err != nil {
		return err
	}
	r.client = redis.NewClient(&r.opt)
	var text string
	if err := r.await(ctx, func() (err error) { text, err = r.client.Info(ctx, "server").Result(); return err }); err != nil {
		return err
	}
	_, after, _ := strings.Cut(text, "redis_version:")
	version, _, _ := strings.Cut(after, "\r")
	r.info = fmt.Sprintf("Redis %s, appendonly=yes appendfsync=%s save=''", version, r.fsync)
	return nil
}

func (r *redisServer) about() string { return r.info }

func (r *redisServer) cpu() time.Duration { return family(r.PID()) }

func (r *redisServer) fresh(ctx context.Context) (string, error) {
	return fmt.Sprintf("redis://:%s@%s/0", r.opt.Password, r.opt.Addr), r.client.FlushAll(ctx).Err()
}

func (r *redisServer) left(ctx context.Context) (bool, error) {
	for _, list := range []string{"pending", "active"} {
		n, err := r.client.LLen(ctx, "asynq:{default}:"+list).Result()
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

func (r *redisServer) finished(context.Context) (int64, error) {
	inspector := asynq.NewInspectorFromRedisClient(r.client)
	queue, err := inspector.GetQueueInfo("default")
	if err != nil {
		return 0, err
	}
	return int64(queue.ProcessedTotal - queue.FailedTotal), nil
}

func (r *redisServer) close() {
	if r.client != nil {
		_ = r.client.Close()
	}
	r.end(syscall.SIGTERM)
}
