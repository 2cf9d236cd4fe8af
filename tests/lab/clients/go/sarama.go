package main

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient does the work with sarama.
func saramaClient(work Work) error {
	config := saramaConfig(work)
	if work.Role == "connect" {
		work.Paced(func(number int) {
			producer, err := sarama.NewSyncProducer(work.Brokers(), config)
			if err != nil {
				log.Println("failed:", err)
				return
			}
			defer producer.Close()
			if _, _, err := producer.SendMessage(saramaMessage(work, number)); err != nil {
				log.Println("failed:", err)
			}
		})
		return nil
	}
	switch work.Role {
	case "produce":
		producer, err := sarama.NewAsyncProducer(work.Brokers(), config)
		if err != nil {
			return err
		}
		OnStop(func() { producer.Close() })
		go func() {
			for failure := range producer.Errors() {
				log.Println("not delivered:", failure.Err)
			}
		}()
		work.Paced(func(number int) { producer.Input() <- saramaMessage(work, number) })
		return producer.Close()
	case "consume":
		group, err := sarama.NewConsumerGroup(work.Brokers(), work.Group, config)
		if err != nil {
			return err
		}
		defer group.Close()
		OnStop(func() { group.Close() })
		for {
			if err := group.Consume(context.Background(), work.Topics, &reader{work: work}); err != nil {
				log.Println("failed:", err)
				time.Sleep(200 * time.Millisecond)
			}
		}
	case "list":
		client, err := sarama.NewClient(work.Brokers(), config)
		if err != nil {
			return err
		}
		defer client.Close()
		work.Paced(func(int) {
			if err := client.RefreshMetadata(); err != nil {
				log.Println("failed:", err)
			}
		})
	}
	return nil
}

type reader struct {
	work Work
	read int
}

func (r *reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (r *reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (r *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			r.read++
			r.work.Rest(r.read)
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func saramaMessage(work Work, number int) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic: work.Topics[number%len(work.Topics)],
		Key:   sarama.ByteEncoder(work.KeyOf(number)), Value: sarama.ByteEncoder(work.Value(number)),
	}
	if work.TimestampOffset != 0 {
		message.Timestamp = work.Moment()
	}
	return message
}

func saramaConfig(work Work) *sarama.Config {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	config := sarama.NewConfig()
	config.ClientID = work.ClientID
	config.Version = sarama.V3_6_0_0
	if version, err := sarama.ParseKafkaVersion(work.Version); work.Version != "" && err == nil {
		config.Version = version
	}
	config.Producer.Return.Successes = work.Role == "connect"
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"all": sarama.WaitForAll, "1": sarama.WaitForLocal, "0": sarama.NoResponse,
	}[work.Acks]
	config.Producer.Flush.Frequency = time.Duration(work.LingerMs) * time.Millisecond
	config.Producer.Retry.Max = 20
	config.Producer.Retry.Backoff = 200 * time.Millisecond
	if work.Compression == "gzip" {
		config.Producer.Compression = sarama.CompressionGZIP
	}
	if work.TimeoutMs > 0 {
		config.Net.ReadTimeout = time.Duration(work.TimeoutMs) * time.Millisecond
	}
	if work.Reset == "earliest" {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
	}
	if work.SessionMs > 0 {
		config.Consumer.Group.Session.Timeout = time.Duration(work.SessionMs) * time.Millisecond
		config.Consumer.Group.Heartbeat.Interval = config.Consumer.Group.Session.Timeout / 3
	}
	if work.InstanceID != "" {
		config.Consumer.Group.InstanceId = work.InstanceID
	}
	switch work.Strategy {
	case "roundrobin":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	case "sticky":
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	}
	if work.User != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.User, config.Net.SASL.Password = work.User, work.Password
	}
	if work.TLS {
		config.Net.TLS.Enable, config.Net.TLS.Config = true, trust(work)
	}
	return config
}
