package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// franz does the work with franz-go.
func franz(work Work) error {
	ctx := context.Background()
	options := franzOptions(work)
	if work.Role == "connect" {
		work.Paced(func(number int) {
			client, err := kgo.NewClient(options...)
			if err != nil {
				log.Println("failed:", err)
				return
			}
			defer client.Close()
			short, done := context.WithTimeout(ctx, 2*time.Second)
			defer done()
			if err := client.ProduceSync(short, franzRecord(work, number)).FirstErr(); err != nil {
				log.Println("failed:", err)
			}
		})
		return nil
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	OnStop(func() {
		short, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		_ = client.Flush(short)
		client.Close()
	})
	switch work.Role {
	case "produce":
		work.Paced(func(number int) {
			client.Produce(ctx, franzRecord(work, number), report)
		})
		return client.Flush(ctx)
	case "consume":
		read := 0
		for {
			fetches := client.PollRecords(ctx, 50)
			fetches.EachError(func(topic string, partition int32, err error) {
				log.Println("not read:", topic, partition, err)
			})
			fetches.EachRecord(func(*kgo.Record) {
				read++
				work.Rest(read)
			})
		}
	case "transact":
		return franzTransactions(ctx, client, work)
	case "list":
		admin := kadm.NewClient(client)
		work.Paced(func(int) {
			if _, err := admin.Metadata(ctx); err != nil {
				log.Println("failed:", err)
			}
		})
	}
	return nil
}

func franzTransactions(ctx context.Context, client *kgo.Client, work Work) error {
	var failed error
	work.Paced(func(number int) {
		if failed != nil {
			return
		}
		if failed = client.BeginTransaction(); failed != nil {
			return
		}
		for record := range work.InTransaction {
			client.Produce(ctx, franzRecord(work, number*work.InTransaction+record), report)
		}
		if err := client.Flush(ctx); err != nil {
			log.Println("failed:", err)
		}
		time.Sleep(time.Duration(work.HoldS * float64(time.Second)))
		commit := kgo.TransactionEndTry(work.AbortEvery == 0 || number%work.AbortEvery != work.AbortEvery-1)
		failed = client.EndTransaction(ctx, commit)
	})
	return failed
}

func report(_ *kgo.Record, err error) {
	if err != nil {
		log.Println("not delivered:", err)
	}
}

func franzRecord(work Work, number int) *kgo.Record {
	record := &kgo.Record{
		Topic: work.Topics[number%len(work.Topics)], Key: work.KeyOf(number), Value: work.Value(number),
	}
	if work.TimestampOffset != 0 {
		record.Timestamp = work.Moment()
	}
	return record
}

func franzOptions(work Work) []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(work.Brokers()...), kgo.ClientID(work.ClientID)}
	if work.Version != "" {
		options = append(options, kgo.SoftwareNameAndVersion(work.Name, work.Version))
	}
	if work.Role == "consume" {
		options = append(options, kgo.ConsumeTopics(work.Topics...))
		if work.Group != "" {
			options = append(options, kgo.ConsumerGroup(work.Group), kgo.AutoCommitInterval(2*time.Second))
		}
		if work.InstanceID != "" {
			options = append(options, kgo.InstanceID(work.InstanceID))
		}
		if work.SessionMs > 0 {
			session := time.Duration(work.SessionMs) * time.Millisecond
			options = append(options, kgo.SessionTimeout(session), kgo.HeartbeatInterval(session/3))
		}
		switch work.Strategy {
		case "range":
			options = append(options, kgo.Balancers(kgo.RangeBalancer()))
		case "roundrobin":
			options = append(options, kgo.Balancers(kgo.RoundRobinBalancer()))
		case "sticky":
			options = append(options, kgo.Balancers(kgo.StickyBalancer()))
		}
	} else {
		options = append(options, kgo.ProducerLinger(time.Duration(work.LingerMs)*time.Millisecond))
		if work.Compression == "none" {
			options = append(options, kgo.ProducerBatchCompression(kgo.NoCompression()))
		}
		if !work.Idempotent && work.TransactionalID == "" {
			options = append(options, kgo.DisableIdempotentWrite())
		}
		switch work.Acks {
		case "0":
			options = append(options, kgo.RequiredAcks(kgo.NoAck()))
		case "1":
			options = append(options, kgo.RequiredAcks(kgo.LeaderAck()))
		}
		if work.DeliveryMs > 0 {
			options = append(options, kgo.RecordDeliveryTimeout(time.Duration(work.DeliveryMs)*time.Millisecond))
		}
		if work.TimeoutMs > 0 {
			options = append(options, kgo.RequestTimeoutOverhead(time.Duration(work.TimeoutMs)*time.Millisecond))
		}
		if work.TransactionalID != "" {
			options = append(options, kgo.TransactionalID(work.TransactionalID))
		}
	}
	switch {
	case work.User != "" && work.Mechanism == "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: work.User, Pass: work.Password}.AsMechanism()))
	case work.User != "":
		options = append(options, kgo.SASL(scram.Auth{User: work.User, Pass: work.Password}.AsSha256Mechanism()))
	}
	if work.TLS {
		options = append(options, kgo.DialTLSConfig(trust(work)))
	}
	return options
}

func trust(work Work) *tls.Config {
	if work.Authority == "" {
		return &tls.Config{}
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(work.Authority)
	if err != nil {
		log.Fatal(err)
	}
	pool.AppendCertsFromPEM(text)
	return &tls.Config{RootCAs: pool}
}
