"""The schema of every Kafka message: the text files in messages/, their parser, and the values they become."""
